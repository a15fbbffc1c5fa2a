"""scaled_dot_product_attention and its gradients against float64: masks, causal rows, sizes that core's own function must take."""

import random

import pytest
import torch
import torch_xla
from torch.nn.attention import SDPBackend, sdpa_kernel

attend = torch.nn.functional.scaled_dot_product_attention


def draw_case(rng: random.Random) -> dict:
    """Sizes and options of one call; masks have dims of 1 that broadcast, and a row with no key."""
    batch = rng.choice(((2,), (2, 3), (1, 2, 2)))
    rows, keys = rng.randint(1, 9), rng.randint(1, 9)
    kind = rng.choice(("none", "none", "causal", "bool", "float"))
    lead = [rng.choice((n, 1)) for n in batch] if rng.random() < 0.5 else []
    scale = rng.choice((None, 0.3))
    return {"batch": batch, "rows": rows, "keys": keys, "width": rng.randint(1, 9), "values": rng.randint(1, 9), "kind": kind, "lead": lead, "scale": scale}


def draw_inputs(case: dict) -> list[torch.Tensor]:
    """q, k, v and the mask, in float64 (or bool)."""
    sizes = ((case["rows"], case["width"]), (case["keys"], case["width"]), (case["keys"], case["values"]))
    inputs = [torch.randn(*case["batch"], *size, dtype=torch.float64) for size in sizes]
    if case["kind"] in ("bool", "float"):
        mask = torch.randn(*case["lead"], case["rows"], case["keys"], dtype=torch.float64)
        if case["kind"] == "bool":
            mask = mask > 0
            mask[..., 0, :] = False
        inputs.append(mask)
    return inputs


def run(case: dict, inputs: list[torch.Tensor], device: str, dtype: torch.dtype) -> list[torch.Tensor]:
    """Result and gradients."""
    leaves = [t.to(device) if t.dtype == torch.bool else t.to(device=device, dtype=dtype).detach().clone().requires_grad_() for t in inputs]
    mask = leaves[3] if len(leaves) > 3 else None
    y = attend(*leaves[:3], mask, is_causal=case["kind"] == "causal", scale=case["scale"])
    (y * (torch.arange(y.numel(), device=device).reshape(y.shape).remainder(7).to(dtype) - 3)).sum().backward()
    return [y.detach().cpu(), *(t.grad.cpu() for t in leaves if t.requires_grad)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_like_float64(xla, seed: int, dtype: torch.dtype) -> None:
    rng = random.Random(seed)
    slack = {torch.float32: 1e-6, torch.float64: 1e-14, torch.bfloat16: 1e-2}[dtype]
    for _ in range(40):
        case = draw_case(rng)
        inputs = [t if t.dtype == torch.bool else t.to(dtype).double() for t in draw_inputs(case)]
        exact, eager, ours = run(case, inputs, "cpu", torch.float64), run(case, inputs, "cpu", dtype), run(case, inputs, "xla", dtype)
        for e, f, o in zip(exact, eager, ours, strict=True):
            assert o.dtype == dtype
            scale = e.norm().item() + e.numel() ** 0.5  # a gradient that is zero, as with one key, has no norm to compare with
            error, peer = (o.double() - e).norm().item() / scale, (f.double() - e).norm().item() / scale
            assert error <= 2 * peer + slack, (case, error, peer)


def test_one_operation_with_a_name(xla) -> None:
    import torch_xla.debug.metrics as met

    q, k, v = (torch.randn(2, 3, 5, 4, device=xla, requires_grad=True) for _ in range(3))
    torch_xla.sync()
    met.clear_all()
    attend(q, k, v).sum().backward()
    torch_xla.sync()
    names = met.counter_names()
    assert any("attention" in name for name in names), names
    assert not any("softmax" in name for name in names), names


def test_the_gradient_in_a_program_of_its_own(xla) -> None:
    """The forward pass is flushed before the backward pass: the kept sums take the place of the probabilities."""
    leaves = [torch.randn(2, 3, 5, 4, requires_grad=True) for _ in range(3)]
    ours = [t.detach().to(xla).requires_grad_() for t in leaves]
    y = attend(*ours)
    torch_xla.sync()
    y.square().sum().backward()
    attend(*leaves).square().sum().backward()
    for a, b in zip(ours, leaves, strict=True):
        torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda q, k, v: attend(q, k, v, dropout_p=0.0, enable_gqa=True),
        lambda q, k, v: attend(q[0, 0], k[0, 0], v[0, 0]),
        lambda q, k, v: attend(q[:1], k, v),
        lambda q, k, v: attend(q[:, :, :0], k, v),
        lambda q, k, v: torch.func.vmap(attend)(q, k, v),
        lambda q, k, v: torch.func.jvp(lambda x: attend(x, k, v), (q,), (torch.ones_like(q),))[1],
        lambda q, k, v: torch.func.grad(lambda x: attend(x, k, v).sum())(q),
    ],
    ids=["grouped", "rank 2", "broadcast batch", "no rows", "vmap", "jvp", "grad"],
)
def test_what_core_composes(xla, call) -> None:
    inputs = [torch.randn(2, 3, 5, 4) for _ in range(3)]
    with sdpa_kernel(SDPBackend.MATH):
        wanted = call(*inputs)
    torch.testing.assert_close(call(*(t.to(xla) for t in inputs)).cpu(), wanted, rtol=1e-5, atol=1e-5)


def test_errors_are_pytorchs(xla) -> None:
    for call in (
        lambda d: attend(torch.ones(2, 3, 4, device=d), torch.ones(2, 3, 5, device=d), torch.ones(2, 3, 5, device=d)),
        lambda d: attend(torch.ones(2, 3, 4, device=d), torch.ones(2, 3, 4, device=d, dtype=torch.float64), torch.ones(2, 3, 4, device=d)),
        lambda d: attend(*[torch.ones(2, 3, 4, device=d)] * 3, torch.ones(7, 3, device=d)),
    ):
        with pytest.raises(RuntimeError):
            call("cpu")
        with pytest.raises(RuntimeError):
            call(xla)


def test_double_backward_with_math(xla) -> None:
    def penalty(device: str, q: torch.Tensor) -> torch.Tensor:
        x = q.to(device).detach().requires_grad_()
        with sdpa_kernel(SDPBackend.MATH):
            (first,) = torch.autograd.grad(attend(x, x, x).sum(), x, create_graph=True)
        first.square().sum().backward()
        return x.grad.cpu()

    q = torch.randn(2, 3, 4)
    torch.testing.assert_close(penalty("xla", q), penalty("cpu", q), rtol=1e-4, atol=1e-5)
