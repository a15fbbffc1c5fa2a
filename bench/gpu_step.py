"""One training step on a GPU: device xla beside PyTorch's eager mode, torch.compile and JAX, in one run.

    PYTHONPATH=python python bench/gpu_step.py [vit_bf16 vit_tf32 resnet50 bert] [--modes xla,eager,compile,jax] [--rounds 5] [--json FILE]

Each mode runs in a process of its own, so that its peak memory is its own. Prints the median milliseconds a step, the peak MiB, the seconds of the first four
steps with everything that is compiled in them, and the milliseconds that the host takes to put a step on the device. JAX has the transformers only.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

BATCH = {"vit_bf16": 128, "vit_tf32": 128, "resnet50": 256, "bert": 64}
STEPS_A_ROUND = 10


def torch_model(work: str) -> tuple:
    """Model, inputs on the host, and the loss of a model's output."""
    import torch

    batch = BATCH[work]
    if work == "bert":
        from transformers import BertConfig, BertForMaskedLM

        ids, labels = torch.randint(0, 30000, (batch, 128)), torch.randint(0, 30000, (batch, 128))
        return BertForMaskedLM(BertConfig()), (ids, labels), lambda model, ids, labels: model(input_ids=ids, labels=labels).loss
    import torchvision

    name = "resnet50" if work == "resnet50" else "vit_b_16"
    images, labels = torch.randn(batch, 3, 224, 224), torch.randint(0, 1000, (batch,))
    criterion = torch.nn.CrossEntropyLoss()
    return getattr(torchvision.models, name)(num_classes=1000), (images, labels), lambda model, images, labels: criterion(model(images), labels)


def torch_step(work: str, mode: str) -> tuple[Callable[[], Any], Callable[[], None], Callable[[], float]]:
    """The step, a wait for the device, and the peak memory in MiB."""
    import torch

    device = "xla" if mode == "xla" else "cuda"
    if mode == "xla":
        import torch_xla
        import torch_xla.core.xla_model as xm

        def wait() -> None:
            torch_xla.sync(wait=True)

        def peak() -> float:
            return float(xm.get_memory_info(torch.device("xla"))["peak_bytes_used"]) / 2**20
    else:

        def wait() -> None:
            torch.cuda.synchronize()

        def peak() -> float:
            return torch.cuda.max_memory_allocated() / 2**20

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = True
    model, inputs, loss_of = torch_model(work)
    model = model.to(device).train()
    inputs = tuple(x.to(device) for x in inputs)
    if work == "resnet50":
        model, inputs = model.to(memory_format=torch.channels_last), (inputs[0].to(memory_format=torch.channels_last), inputs[1])
    if work == "bert":
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=mode != "xla")
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, fused=mode != "xla")

    def forward() -> torch.Tensor:
        with torch.autocast(device, torch.bfloat16, enabled=work != "vit_tf32"):
            return loss_of(model, *inputs)

    if mode == "compile":
        forward = torch.compile(forward)

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = forward()
        loss.backward()
        optimizer.step()
        if mode == "xla":
            torch_xla.sync()
        return loss

    return step, wait, peak


def jax_step(work: str) -> tuple[Callable[[], Any], Callable[[], None], Callable[[], float]]:
    """A transformer of the same sizes in JAX, the whole step jitted, parameters donated."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    import jax.numpy as jnp
    import numpy as np

    width, layers, heads, classes = 768, 12, 12, 30522 if work == "bert" else 1000
    tokens, inner = (128, 3072) if work == "bert" else (197, 3072)
    compute = jnp.float32 if work == "vit_tf32" else jnp.bfloat16
    if work == "vit_tf32":
        jax.config.update("jax_default_matmul_precision", "tensorfloat32")
    random = np.random.default_rng(0)

    def weight(*shape: int) -> Any:
        return jnp.asarray(random.normal(0, 0.02, shape), jnp.float32)

    def scale() -> dict[str, Any]:
        return {"scale": jnp.ones(width), "shift": jnp.zeros(width)}

    def dense(rows: int, columns: int) -> dict[str, Any]:
        return {"weight": weight(rows, columns), "bias": jnp.zeros(columns)}

    blocks = [
        {
            "first": scale(),
            "qkv": dense(width, 3 * width),
            "out": dense(width, width),
            "second": scale(),
            "up": dense(width, inner),
            "down": dense(inner, width),
        }
        for _ in range(layers)
    ]
    embedding = weight(classes, width) if work == "bert" else dense(768, width)
    params = {
        "embedding": embedding,
        "class": weight(1, 1, width),
        "place": weight(1, tokens, width),
        "blocks": blocks,
        "norm": scale(),
        "head": dense(width, classes),
    }

    def normed(x: Any, p: Any) -> Any:
        x = x.astype(jnp.float32)
        centred = x - x.mean(-1, keepdims=True)
        return (centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-6) * p["scale"] + p["shift"]).astype(compute)

    def linear(x: Any, p: Any) -> Any:
        return x @ p["weight"].astype(compute) + p["bias"].astype(compute)

    def logits(p: Any, x: Any) -> Any:
        if work == "bert":
            h = p["embedding"][x].astype(compute)
        else:
            patches = x.reshape(-1, 14, 16, 14, 16, 3).transpose(0, 1, 3, 2, 4, 5).reshape(x.shape[0], 196, 768).astype(compute)
            h = linear(patches, p["embedding"])
            h = jnp.concatenate([jnp.broadcast_to(p["class"].astype(compute), (x.shape[0], 1, width)), h], 1)
        h = h + p["place"].astype(compute)
        for block in p["blocks"]:
            qkv = linear(normed(h, block["first"]), block["qkv"]).reshape(x.shape[0], tokens, 3, heads, width // heads)
            mixed = jax.nn.dot_product_attention(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2], implementation="xla" if work == "vit_tf32" else "cudnn")
            h = h + linear(mixed.reshape(x.shape[0], tokens, width), block["out"])
            h = h + linear(jax.nn.gelu(linear(normed(h, block["second"]), block["up"]), approximate=False), block["down"])
        h = normed(h, p["norm"])
        return linear(h if work == "bert" else h[:, 0], p["head"]).astype(jnp.float32)

    def loss_of(p: Any, x: Any, y: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(logits(p, x)), y[..., None], -1).mean()

    def update(p: Any, m: Any, v: Any, x: Any, y: Any) -> tuple:
        loss, g = jax.value_and_grad(loss_of)(p, x, y)
        if work == "bert":
            m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
            v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
            return jax.tree.map(lambda p, m, v: p * (1 - 1e-6) - 1e-4 * m / (jnp.sqrt(v) + 1e-8), p, m, v), m, v, loss
        m = jax.tree.map(lambda m, g, p: 0.9 * m + g + 1e-4 * p, m, g, p)
        return jax.tree.map(lambda p, m: p - 0.01 * m, p, m), m, v, loss

    jitted = jax.jit(update, donate_argnums=(0, 1, 2))
    zeros = jax.tree.map(jnp.zeros_like, params)
    state = [params, zeros, jax.tree.map(jnp.zeros_like, params) if work == "bert" else ()]
    batch = BATCH[work]
    if work == "bert":
        x, y = jnp.asarray(random.integers(0, 30000, (batch, tokens))), jnp.asarray(random.integers(0, 30000, (batch, tokens)))
    else:
        x, y = jnp.asarray(random.normal(size=(batch, 224, 224, 3)), jnp.float32), jnp.asarray(random.integers(0, classes, batch))

    def step() -> Any:
        state[0], state[1], state[2], loss = jitted(*state, x, y)
        return loss

    def peak() -> float:
        return float((jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0)) / 2**20

    return step, lambda: jax.block_until_ready(state), peak


def work_alone(work: str, mode: str, rounds: int) -> dict[str, float]:
    """Figures of one mode, in this process."""
    started = time.perf_counter()
    step, wait, peak = jax_step(work) if mode == "jax" else torch_step(work, mode)
    made = time.perf_counter()
    for _ in range(4):
        loss = step()
    wait()
    first = time.perf_counter() - made
    times, host = [], []
    for _ in range(3):
        step()
    wait()
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(STEPS_A_ROUND):
            loss = step()
        put = time.perf_counter()
        wait()
        times.append((time.perf_counter() - begin) * 1e3 / STEPS_A_ROUND)
        host.append((put - begin) * 1e3 / STEPS_A_ROUND)
    # The host alone: one step put on an idle device.
    alone = []
    for _ in range(5):
        wait()
        begin = time.perf_counter()
        step()
        alone.append((time.perf_counter() - begin) * 1e3)
    wait()
    return {
        "median_ms": statistics.median(times),
        "minimum_ms": min(times),
        "host_ms": statistics.median(alone),
        "peak_mib": peak(),
        "first_steps_s": first,
        "start_s": made - started,
        "loss": float(loss.detach().float().item() if hasattr(loss, "detach") else loss),
    }


def measure(work: str, mode: str, rounds: int) -> dict[str, Any]:
    """The same in a process of its own; a failure is a row with its last line."""
    command = [sys.executable, os.path.abspath(__file__), work, "--modes", mode, "--rounds", str(rounds), "--alone"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    for line in reversed(run.stdout.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    return {"error": (run.stderr.strip().splitlines() or [f"exit code {run.returncode}"])[-1]}


def report(work: str, rows: dict[str, dict[str, Any]]) -> None:
    print(f"\n{work}, batch {BATCH[work]}")
    print(f"  {'':<9}{'median ms':>11}{'minimum':>9}{'host ms':>9}{'peak MiB':>10}{'first 4 s':>11}{'loss':>10}")
    for mode, row in rows.items():
        if "error" in row:
            print(f"  {mode:<9} {row['error']}")
            continue
        figures = f"{row['median_ms']:>11.2f}{row['minimum_ms']:>9.2f}{row['host_ms']:>9.2f}{row['peak_mib']:>10.0f}"
        print(f"  {mode:<9}{figures}{row['first_steps_s']:>11.1f}{row['loss']:>10.4f}")
    for mode, row in rows.items():
        if mode != "xla" and "median_ms" in row and "median_ms" in rows.get("xla", {}):
            print(f"  xla is {row['median_ms'] / rows['xla']['median_ms']:.2f} times as fast as {mode}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("works", nargs="*", default=list(BATCH), help=", ".join(BATCH))
    parser.add_argument("--modes", default="xla,eager,compile,jax")
    parser.add_argument("--rounds", type=int, default=5, help=f"of {STEPS_A_ROUND} steps")
    parser.add_argument("--json", default="", help="write the figures there too")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := [work for work in options.works if work not in BATCH]:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(BATCH)}")
    if options.alone:
        print(json.dumps(work_alone(options.works[0], options.modes, options.rounds)))
        return 0
    everything: dict[str, Any] = {}
    for work in options.works:
        modes = [mode for mode in options.modes.split(",") if mode != "jax" or work != "resnet50"]
        everything[work] = {mode: measure(work, mode, options.rounds) for mode in modes}
        report(work, everything[work])
    if options.json:
        with open(options.json, "w") as file:
            json.dump(everything, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
