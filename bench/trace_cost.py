"""What tracing costs: nanoseconds an operation on device xla, from Python, above PyTorch's own dispatch.

    PYTHONPATH=python python bench/trace_cost.py

PyTorch's dispatch alone is what detaching a meta tensor costs: argument parsing, dispatch and a new tensor, with a kernel that does nothing else. Each
figure is the minimum of many runs, and they take turns. Nothing is compiled or run while the time is taken: results are dropped before anything asks.
"""

import argparse
import gc
import sys
import time
from collections.abc import Callable

import torch


def nanoseconds(function: Callable[[], None], count: int) -> float:
    started = time.perf_counter()
    function()
    return (time.perf_counter() - started) * 1e9 / count


def chain(x: torch.Tensor, y: torch.Tensor, count: int) -> Callable[[], None]:
    """`count` additions, each of the result of the one before."""

    def run() -> None:
        z = x
        for _ in range(count):
            z = z + y

    return run


def in_place(x: torch.Tensor, y: torch.Tensor, count: int) -> Callable[[], None]:
    def run() -> None:
        z = x.clone()
        for _ in range(count):
            z.add_(y)

    return run


def views(x: torch.Tensor, count: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(count):
            x.t()

    return run


def dispatch_only(x: torch.Tensor, count: int) -> Callable[[], None]:
    """An operation whose kernel does next to nothing: parsing, dispatch and a new tensor."""

    def run() -> None:
        for _ in range(count):
            x.detach()

    return run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=400, help="operations a run; keep it below the flush budget")
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    import thalweg
    import torch_xla

    device = torch_xla.device()
    x, y = torch.randn(8, 8, device=device), torch.randn(8, 8, device=device)
    meta = torch.empty(8, 8, device="meta")
    cpu_x, cpu_y = torch.randn(8, 8), torch.randn(8, 8)
    grad = torch.randn(8, 8, device=device, requires_grad=True)
    torch_xla.sync(wait=True)
    count = options.count
    cases = {
        "dispatch only (detach of a meta tensor)": dispatch_only(meta, count),
        "eager CPU add": chain(cpu_x, cpu_y, count),
        "xla add": chain(x, y, count),
        "xla add_": in_place(x, y, count),
        "xla t()": views(x, count),
        "xla add, with autograd": chain(grad, y, count),
        "eager CPU add, with autograd": chain(cpu_x.clone().requires_grad_(), cpu_y, count),
    }
    lines = {"xla add, lines recorded": chain(x, y, count)}
    best = dict.fromkeys([*cases, *lines], float("inf"))
    gc.disable()
    for _ in range(options.rounds):
        for name, run in cases.items():
            best[name] = min(best[name], nanoseconds(run, count))
        thalweg.record_lines(True)
        for name, run in lines.items():
            best[name] = min(best[name], nanoseconds(run, count))
        thalweg.record_lines(False)
        torch_xla.sync()
    gc.enable()
    for name, value in best.items():
        print(f"{name:<44}{value:>9.0f} ns")
    base = best["dispatch only (detach of a meta tensor)"]
    print(f"\na traced add costs {(best['xla add'] - base) / 1e3:.2f} µs above dispatch, {(best['xla add, lines recorded'] - base) / 1e3:.2f} µs with lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
