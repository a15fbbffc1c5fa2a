"""Random numbers: seeds, states, and that flushes do not change them."""

import math

import pytest
import torch
import torch_xla
import torch_xla.core.xla_model as xm

DRAWS = {
    "rand": lambda d: torch.rand(1000, device=d),
    "randn": lambda d: torch.randn(1000, device=d),
    "randint": lambda d: torch.randint(0, 10, (1000,), device=d),
    "uniform_": lambda d: torch.empty(1000, device=d).uniform_(-2, 3),
    "normal_": lambda d: torch.empty(1000, device=d).normal_(1, 2),
    "bernoulli": lambda d: torch.bernoulli(torch.full((1000,), 0.3, device=d)),
    "dropout": lambda d: torch.nn.functional.dropout(torch.ones(1000, device=d), 0.25),
    "randperm": lambda d: torch.randperm(100, device=d),
    "multinomial": lambda d: torch.multinomial(torch.ones(10, device=d), 500, replacement=True),
    "exponential_": lambda d: torch.empty(1000, device=d).exponential_(),
}


@pytest.mark.parametrize("name", DRAWS)
def test_seed_repeats(xla, name: str) -> None:
    torch.manual_seed(11)
    first = DRAWS[name](xla).cpu()
    torch.manual_seed(11)
    assert torch.equal(first, DRAWS[name](xla).cpu())
    assert not torch.equal(first, DRAWS[name](xla).cpu()), "the second draw must differ"


@pytest.mark.parametrize("name", DRAWS)
def test_flushes_change_nothing(xla, name: str) -> None:
    torch.manual_seed(12)
    together = [DRAWS[name](xla), torch.randn(3, device=xla), DRAWS[name](xla)]
    torch_xla.sync()
    torch.manual_seed(12)
    apart = []
    for draw in (DRAWS[name], lambda d: torch.randn(3, device=d), DRAWS[name]):
        apart.append(draw(xla))
        torch_xla.sync(wait=True)
    for a, b in zip(together, apart, strict=True):
        assert torch.equal(a.cpu(), b.cpu())


def test_dead_draws_count(xla) -> None:
    torch.manual_seed(1)
    torch.rand(10, device=xla)
    second = torch.rand(10, device=xla).cpu()
    torch.manual_seed(1)
    used = torch.rand(10, device=xla)
    again = torch.rand(10, device=xla)
    assert used.sum().item() >= 0
    assert torch.equal(second, again.cpu())


def _p_of_uniform(values: torch.Tensor) -> float:
    from scipy import stats

    return stats.kstest(values.double().numpy(), "uniform").pvalue


def test_distributions(xla) -> None:
    from scipy import stats

    torch.manual_seed(5)
    uniform = torch.rand(20000, device=xla).cpu()
    assert uniform.min() >= 0 and uniform.max() < 1 and _p_of_uniform(uniform) > 1e-4
    normal = torch.randn(20000, device=xla).cpu()
    assert stats.kstest(normal.double().numpy(), "norm").pvalue > 1e-4
    counts = torch.bincount(torch.randint(0, 10, (20000,), device=xla).cpu(), minlength=10)
    assert stats.chisquare(counts.numpy()).pvalue > 1e-4
    kept = (torch.nn.functional.dropout(torch.ones(20000, device=xla), 0.25) != 0).double().mean().item()
    assert abs(kept - 0.75) < 5 * math.sqrt(0.75 * 0.25 / 20000)
    # Numbers of one draw do not follow from each other.
    shifted = torch.corrcoef(torch.stack([uniform[:-1], uniform[1:]]))[0, 1].abs().item()
    assert shifted < 5 / math.sqrt(20000)


def test_dropout_scales_and_masks_backward(xla) -> None:
    x = torch.ones(1000, device=xla, requires_grad=True)
    y = torch.nn.functional.dropout(x, 0.5)
    y.sum().backward()
    assert torch.equal(x.grad.cpu(), y.detach().cpu())
    assert set(y.tolist()) == {0.0, 2.0}


def test_states_of_xla_model(xla) -> None:
    xm.set_rng_state(77)
    assert xm.get_rng_state() == 77
    torch.rand(10, device=xla)
    state = xm.get_rng_state()
    first = torch.rand(10, device=xla).cpu()
    xm.set_rng_state(state)
    assert torch.equal(first, torch.rand(10, device=xla).cpu())
    with xm.fork_rng():
        torch.rand(10, device=xla)
    xm.set_rng_state(state)
    assert torch.equal(first, torch.rand(10, device=xla).cpu())
    torch_xla.manual_seed(3)
    assert xm.get_rng_state() == 3
    with pytest.raises(ValueError, match="random state"):
        xm.set_rng_state(-1)


def test_getting_a_state_does_not_flush(xla) -> None:
    from programs import watch

    x = torch.randn(4, device=xla)
    with watch() as work:
        y = x * 2
        torch.xla.get_rng_state()
        torch.manual_seed(1)
    assert work.launches == 0
    assert y.shape == (4,)
