"""Convolutions and their gradients: random shapes on every way that threads share the work, against float64."""

import random

import pytest
import torch
from thalweg import _C


def draw_case(rng: random.Random) -> tuple:
    """Sizes that reach the shares: batches that split and that do not, channels that split and that do not, groups, transposed, 1 to 3 dims."""
    dims = rng.choice((1, 2, 2, 3))
    groups = rng.choice((1, 1, 2))
    ins, outs = groups * rng.choice((1, 3, 16)), groups * rng.choice((1, 5, 32, 48))
    batch, kernel = rng.choice((1, 2, 7, 8, 9, 17)), rng.choice((1, 2, 3))
    options = {"stride": rng.choice((1, 2)), "padding": rng.choice((0, 1)), "dilation": rng.choice((1, 2)), "groups": groups}
    transposed = rng.random() < 0.3
    sides = [rng.randint(5, 9) for _ in range(dims)]
    weight = (ins, outs // groups) if transposed else (outs, ins // groups)
    return dims, transposed, (batch, ins, *sides), (*weight, *[kernel] * dims), options


def gradients(case: tuple, device: str, dtype: torch.dtype, x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> list[torch.Tensor]:
    """Result and gradients of one case on one device."""
    dims, transposed, _, _, options = case
    name = f"conv_transpose{dims}d" if transposed else f"conv{dims}d"
    x, w, bias = (t.to(device=device, dtype=dtype).detach().clone().requires_grad_() for t in (x, w, bias))
    y = getattr(torch.nn.functional, name)(x, w, bias, **options)
    weights = torch.arange(y.numel(), device=device).reshape(y.shape).remainder(7).to(dtype) - 3  # as fresh as random ones, and the same everywhere
    (y * weights).sum().backward()
    return [t.cpu() for t in (y.detach(), x.grad, w.grad, bias.grad)]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_like_float64(xla, seed: int, threads: int) -> None:
    rng = random.Random(seed)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for _ in range(40):
            case = draw_case(rng)
            channels = case[3][1] * case[4]["groups"] if case[1] else case[3][0]
            x, w, bias = torch.randn(case[2]), torch.randn(case[3]), torch.randn(channels)
            exact = gradients(case, "cpu", torch.float64, x, w, bias)
            eager = gradients(case, "cpu", torch.float32, x, w, bias)
            ours = gradients(case, "xla", torch.float32, x, w, bias)
            again = gradients(case, "xla", torch.float32, x, w, bias)
            for name, e, f, o, a in zip(("y", "x.grad", "w.grad", "bias.grad"), exact, eager, ours, again, strict=True):
                scale = e.norm().item() + 1e-30
                error, peer = (o - e).norm().item() / scale, (f - e).norm().item() / scale
                assert error <= max(2 * peer, 1e-6), (case, name, error, peer)
                # A GPU's libraries may add in any order unless they are told not to.
                assert torch.equal(o, a) or _C.device_kind() != "CPU", (case, name, "differs when repeated")
    finally:
        torch.set_num_threads(before)
