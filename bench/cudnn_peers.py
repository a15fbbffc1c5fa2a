"""Milliseconds of PyTorch's attention and convolutions for the shapes of bench/cudnn_bench.cpp, bf16, on the same GPU."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel


def milliseconds(work: Callable[[], object], runs: int = 20, together: int = 10) -> float:
    """The median of `runs` timed by events, after warming up; of each, `together` are queued, so that the host is ahead."""
    for _ in range(5):
        work()
    times = []
    for _ in range(runs):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(together):
            work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / together)
    return statistics.median(times)


def attention() -> None:
    """Heads read from the packed projection, as models do."""
    packed = torch.randn(128, 197, 3, 12, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    q, k, v = (packed[:, :, i].transpose(1, 2) for i in range(3))
    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
        with sdpa_kernel(backend):
            forward = milliseconds(lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v))
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
            dy = torch.randn_like(y)
            backward = milliseconds(lambda y=y, dy=dy: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True))
        print(f"torch attention {backend.name}: forward {forward:.4f} ms, backward {backward:.4f} ms")


def convolution(x_dims: tuple[int, ...], w_dims: tuple[int, ...], stride: int, padding: int) -> None:
    """Channels last, each gradient alone."""
    x = torch.randn(x_dims, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    w = torch.randn(w_dims, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    forward = milliseconds(lambda: torch.conv2d(x, w, stride=stride, padding=padding))
    dy = torch.randn_like(torch.conv2d(x, w, stride=stride, padding=padding))

    def gradient(mask: list[bool]) -> float:
        return milliseconds(lambda: torch.ops.aten.convolution_backward(dy, x, w, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1, mask))

    data = gradient([True, False, False]) if x_dims[1] != 3 else float("nan")
    weight = gradient([False, True, False])
    print(f"torch convolution {x_dims} {w_dims} stride {stride}: forward {forward:.4f}, data {data:.4f}, filter {weight:.4f} ms")


if __name__ == "__main__":
    attention()
    for benchmark in (False, True):
        torch.backends.cudnn.benchmark = benchmark
        print(f"cudnn.benchmark = {benchmark}")
        convolution((256, 3, 224, 224), (64, 3, 7, 7), 2, 3)
        convolution((256, 64, 56, 56), (64, 64, 3, 3), 1, 1)
        convolution((256, 64, 56, 56), (256, 64, 1, 1), 1, 0)
        convolution((256, 256, 14, 14), (256, 256, 3, 3), 1, 1)
