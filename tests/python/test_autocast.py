"""Mixed precision: which operations compute in what, loss scaling, and optimizers that skip steps on the device."""

import copy

import pytest
import torch
import torch_xla
from programs import watch
from torch_xla import amp
from torch_xla.amp import syncfree

LOWER = {
    "linear": lambda x: torch.nn.functional.linear(x, x),
    "matmul": lambda x: x @ x,
    "bmm": lambda x: torch.bmm(x[None], x[None]),
    "conv2d": lambda x: torch.nn.functional.conv2d(x[None, None], x[None, None, :2, :2]),
    "attention": lambda x: torch.nn.functional.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]),
    "addmm": lambda x: torch.addmm(x, x, x),
    "einsum": lambda x: torch.einsum("ij,jk->ik", x, x),
}
FULL = {
    "exp": torch.exp,
    "log": lambda x: torch.log(x.abs()),
    "softmax": lambda x: torch.softmax(x, -1),
    "layer_norm": lambda x: torch.nn.functional.layer_norm(x, (4,)),
    "sum": lambda x: x.sum(),
    "cross_entropy": lambda x: torch.nn.functional.cross_entropy(x, torch.zeros(4, dtype=torch.int64, device=x.device)),
    "pow": lambda x: x.abs().pow(2.5),
    "mse_loss": lambda x: torch.nn.functional.mse_loss(x, x * 2),
}


@pytest.mark.parametrize("name", LOWER)
def test_lower(xla, name: str) -> None:
    x = torch.randn(4, 4).to(xla)
    with torch.autocast("xla", torch.bfloat16):
        result = LOWER[name](x)
    assert result.dtype == torch.bfloat16
    expected = LOWER[name](x.cpu().bfloat16().float())
    torch.testing.assert_close(result.float().cpu(), expected, rtol=2e-2, atol=3e-2)


@pytest.mark.parametrize("threads", [1, 2])
def test_large_products_share_rows(xla, threads: int) -> None:
    """Rows of a product, and matrices of a batch, are shared between threads: sizes that no share divides."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        a, b, turned = torch.randn(331, 70).bfloat16(), torch.randn(70, 45).bfloat16(), torch.randn(70, 259).bfloat16()
        batch = torch.randn(7, 20, 33).bfloat16(), torch.randn(7, 33, 18).bfloat16()
        for left, right in ((a, b), (turned.t(), b), batch, (batch[1].transpose(1, 2), batch[0].transpose(1, 2))):
            result = (left.to(xla) @ right.to(xla)).cpu()
            torch.testing.assert_close(result.float(), left.float() @ right.float(), rtol=1e-2, atol=5e-2)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", FULL)
def test_full(xla, name: str) -> None:
    x = torch.randn(4, 4).to(xla).bfloat16()
    with torch.autocast("xla", torch.bfloat16):
        result = FULL[name](x)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result.cpu(), FULL[name](x.float().cpu()), rtol=1e-3, atol=1e-3)


def test_promotion(xla) -> None:
    a, b = torch.randn(3, device=xla), torch.randn(3, device=xla).bfloat16()
    with torch.autocast("xla", torch.bfloat16):
        assert torch.cat([a, b]).dtype == torch.float32
        assert torch.addcmul(a, a, b).dtype == torch.float32
        assert (a + b).dtype == torch.float32


def test_nesting_and_disabling(xla) -> None:
    x = torch.randn(4, 4, device=xla)
    with amp.autocast(xla):
        assert (x @ x).dtype == torch.bfloat16
        with amp.autocast(xla, enabled=False):
            assert (x @ x).dtype == torch.float32
    with amp.autocast(xla, dtype=torch.float16):
        assert (x @ x).dtype == torch.float16
    assert (x @ x).dtype == torch.float32


def test_a_training_step_is_one_program(xla) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).to(xla)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(6, 4).to(xla), torch.randint(0, 2, (6,)).to(xla)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("xla", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        torch_xla.sync()

    for _ in range(2):
        step()
    with watch() as work:
        step()
    assert (work.launches, work.compiles, work.fallbacks) == (1, 0, 0)
    assert all(parameter.dtype == parameter.grad.dtype == torch.float32 for parameter in model.parameters())


OPTIMIZERS = {
    "sgd": (syncfree.SGD, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "adam": (syncfree.Adam, torch.optim.Adam, {"lr": 0.01}),
    "adamw": (syncfree.AdamW, torch.optim.AdamW, {"lr": 0.01}),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_syncfree_optimizer_skips_on_the_device(xla, name: str) -> None:
    ours, theirs, options = OPTIMIZERS[name]
    expected = torch.nn.Parameter(torch.randn(5))
    actual = torch.nn.Parameter(expected.detach().to(xla))
    reference, optimizer = theirs([expected], **options), ours([actual], **options)
    for skip in (0, 1, 0, 0, 1, 0):
        gradient = torch.randn(5)
        actual.grad = (gradient / (1 - skip)).to(xla)
        with watch() as work:
            optimizer.step(found_inf=torch.tensor(float(skip)).to(xla))
        assert work.launches == 0, "the step waited for the device"
        if not skip:
            expected.grad = gradient
            reference.step()
    torch.testing.assert_close(actual.detach().cpu(), expected.detach())


def test_grad_scaler(xla) -> None:
    model = torch.nn.Linear(3, 1)
    moved = copy.deepcopy(model).to(xla)
    reference = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = syncfree.SGD(moved.parameters(), lr=0.1)
    scaler = amp.GradScaler(init_scale=4.0, growth_interval=2)
    for step in range(5):
        x = torch.randn(4, 3)
        optimizer.zero_grad()
        loss = moved(x.to(xla)).square().mean() * (float("inf") if step == 2 else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        torch_xla.sync()
        if step != 2:
            reference.zero_grad()
            model(x).square().mean().backward()
            reference.step()
    torch.testing.assert_close(moved.weight.detach().cpu(), model.weight.detach(), rtol=1e-4, atol=1e-5)
    # Doubled after two good steps, halved after the bad one, doubled again.
    assert scaler.get_scale() == 8.0


def test_core_grad_scaler(xla) -> None:
    weight = torch.nn.Parameter(torch.ones(2, device=xla))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler("xla", init_scale=8.0)
    scaler.scale((weight * 0.25).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [0.75, 0.75]
