"""One training step on the CPU: device xla beside eager and torch.compile, in one run, taking turns.

    PYTHONPATH=python OMP_NUM_THREADS=2 env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python bench/cpu_step.py [vit resnet18 mlp] [--rounds 15] [--json FILE]

Prints each step's median and minimum milliseconds, its first steps' seconds, and ours as a ratio to the best of the others. Single figures differ from
machine to machine and from minute to minute; the ratios of one run are what to compare.
"""

import argparse
import copy
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torchvision

STEPS_A_TURN = {"vit": 2, "resnet18": 4, "mlp": 300}


def vit() -> tuple:
    """6 layers, 192 wide, 65 tokens, batch 32: small enough that products do not hide everything else."""
    sizes = {"image_size": 32, "patch_size": 4, "num_layers": 6, "num_heads": 3, "hidden_dim": 192, "mlp_dim": 768, "num_classes": 10}
    return torchvision.models.VisionTransformer(**sizes), torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))


def resnet18() -> tuple:
    """ResNet-18 at 64×64, batch 16: convolutions."""
    return torchvision.models.resnet18(num_classes=10), torch.randn(16, 3, 64, 64), torch.randint(0, 10, (16,))


def mlp() -> tuple:
    """64-128-10, batch 64: hardly any work, so what is measured is the way to it."""
    return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)), torch.randn(64, 64), torch.randint(0, 10, (64,))


WORK = {"vit": vit, "resnet18": resnet18, "mlp": mlp}


def make_step(mode: str, model: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor) -> Callable[[], torch.Tensor]:
    """One whole training step: gradient reset, forward, backward, SGD with momentum and weight decay."""
    end: Callable[[], Any] = lambda: None  # noqa: E731
    if mode == "xla":
        import torch_xla

        model, images, labels = model.to("xla"), images.to("xla"), labels.to("xla")
        end = lambda: torch_xla.sync(wait=True)  # noqa: E731
    model.train()
    criterion = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)

    def forward() -> torch.Tensor:
        return criterion(model(images), labels)

    update = optimizer.step
    if mode == "compile":
        forward, update = torch.compile(forward), torch.compile(optimizer.step)

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = forward()
        loss.backward()
        update()
        end()
        return loss.detach()

    return step


def measure(name: str, modes: list[str], rounds: int, seed: int) -> dict[str, dict[str, float]]:
    """Times of each mode for the model called `name`."""
    torch.manual_seed(seed)
    model, images, labels = WORK[name]()
    steps, results = {}, {}
    for mode in modes:
        step = make_step(mode, copy.deepcopy(model), images, labels)
        started = time.perf_counter()
        losses = [step().item() for _ in range(4)]
        results[mode] = {"first_steps_s": time.perf_counter() - started, "loss": losses[-1]}
        steps[mode] = step
    times: dict[str, list[float]] = {mode: [] for mode in modes}
    count = STEPS_A_TURN[name]
    for _ in range(rounds):
        for mode in modes:
            started = time.perf_counter()
            for _ in range(count):
                steps[mode]()
            times[mode].append((time.perf_counter() - started) * 1e3 / count)
    for mode in modes:
        results[mode] |= {"median_ms": statistics.median(times[mode]), "minimum_ms": min(times[mode])}
    return results


def processor() -> str:
    """The CPU's name."""
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def report(name: str, results: dict[str, dict[str, float]]) -> None:
    print(f"\n{name}: {WORK[name].__doc__}")
    print(f"  {'':<10}{'median ms':>11}{'minimum ms':>12}{'first 4 steps s':>17}{'loss':>10}")
    for mode, row in results.items():
        print(f"  {mode:<10}{row['median_ms']:>11.3f}{row['minimum_ms']:>12.3f}{row['first_steps_s']:>17.2f}{row['loss']:>10.5f}")
    others = [row["median_ms"] for mode, row in results.items() if mode != "xla"]
    if others and "xla" in results:
        print(f"  xla is {min(others) / results['xla']['median_ms']:.2f} times as fast as the best of the others")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=list(WORK), help=", ".join(WORK))
    parser.add_argument("--modes", default="eager,compile,xla")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", default="", help="write the figures there too")
    options = parser.parse_args()
    unknown = [name for name in options.models if name not in WORK]
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(WORK)}")
    if "xla" in options.modes.split(","):
        import torch_xla  # noqa: F401  before the first backward, when autograd counts the devices

    torch.set_num_threads(options.threads)
    print(f"{processor()}, {options.threads} threads, PyTorch {torch.__version__}, {options.rounds} rounds, seed {options.seed}")
    everything = {}
    for name in options.models:
        torch._dynamo.reset()
        everything[name] = measure(name, options.modes.split(","), options.rounds, options.seed)
        report(name, everything[name])
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"processor": processor(), "torch": torch.__version__, "steps": everything}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
