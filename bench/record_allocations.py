"""Records what PyTorch allocates and frees in training steps and in generation, for replay through an allocator.

    python bench/record_allocations.py FOLDER [vit bert generation]

Writes FOLDER/NAME.txt, one event a line in the order PyTorch made them: a positive number allocates so many bytes, a negative one -k frees the k-th latest
allocation. Parameters and optimizer state that live before the recording are allocated first and never freed. Needs transformers for bert and generation.
"""

import argparse
import gc
import json
import pathlib
import tempfile
from collections.abc import Callable

import torch


def vit() -> Callable[[], None]:
    """ViT, 384 wide, 8 layers, 197 tokens, batch 16, SGD with momentum."""
    import torchvision

    model = torchvision.models.VisionTransformer(224, 16, 8, 6, 384, 1536, num_classes=1000)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images, labels = torch.randn(16, 3, 224, 224), torch.randint(0, 1000, (16,))

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step


def bert() -> Callable[[], None]:
    """BERT for masked words, 256 wide, 6 layers, AdamW; batches of changing length, as a loader that pads to the longest makes them."""
    import transformers

    config = transformers.BertConfig(hidden_size=256, num_hidden_layers=6, num_attention_heads=4, intermediate_size=1024)
    model = transformers.BertForMaskedLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    lengths = iter([128, 97, 61, 113, 77, 120, 45, 101] * 100)

    def step() -> None:
        words = torch.randint(0, config.vocab_size, (8, next(lengths)))
        optimizer.zero_grad()
        model(input_ids=words, labels=words).loss.backward()
        optimizer.step()

    return step


def generation() -> Callable[[], None]:
    """GPT-2's layers, 512 wide, greedy, the keys and values growing by a word a step."""
    import transformers

    config = transformers.GPT2Config(n_embd=512, n_layer=8, n_head=8)
    model = transformers.GPT2LMHeadModel(config).eval()

    def step() -> None:
        with torch.no_grad():
            words = torch.randint(0, config.vocab_size, (8, 32))
            past = None
            for _ in range(40):
                out = model(input_ids=words, past_key_values=past, use_cache=True)
                past, words = out.past_key_values, out.logits[:, -1:].argmax(-1)

    return step


WORK = {"vit": vit, "bert": bert, "generation": generation}


def memory_events(step: Callable[[], None], count: int) -> list[tuple[int, int]]:
    """(address, bytes) of each allocation, (address, -bytes) of each release, in order of time."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        for _ in range(count):
            step()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        events = [e for e in json.loads(path.read_text())["traceEvents"] if e.get("name") == "[memory]"]
    events.sort(key=lambda e: e["ts"])
    return [(int(e["args"]["Addr"]), int(e["args"]["Bytes"])) for e in events]


def as_lines(events: list[tuple[int, int]], before: list[int]) -> list[int]:
    """The file's numbers. Releases of what was allocated before the recording, and not among `before`, are left out."""
    lines = list(before)
    at: dict[int, int] = {}
    allocations = len(before)
    for address, size in events:
        if size > 0:
            at[address] = allocations
            allocations += 1
            lines.append(size)
        elif address in at:
            lines.append(at.pop(address) - allocations)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(WORK))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    for name in options.names or WORK:
        step = WORK[name]()
        step()  # optimizer state
        gc.collect()
        before = sorted({(s.data_ptr(), s.nbytes()) for o in gc.get_objects() if isinstance(o, torch.Tensor) for s in [o.untyped_storage()] if s.nbytes()})
        lines = as_lines(memory_events(step, {"vit": 3, "bert": 8, "generation": 1}[name]), [size for _, size in before])
        (options.folder / f"{name}.txt").write_text("\n".join(map(str, lines)) + "\n")
        print(f"{name}: {sum(n > 0 for n in lines)} allocations, {sum(n < 0 for n in lines)} releases, {len(before)} of them from before")


if __name__ == "__main__":
    main()
