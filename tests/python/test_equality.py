"""Training steps against PyTorch's eager CPU device, step by step.

Each step starts from eager's state, so errors do not add up: the loss must agree within 1e-5 relative, and the gradients may be at most twice as far from
those in float64 as eager's are. Free-running losses would prove nothing, since eager's own drift apart with the number of threads.
"""

import copy
import statistics
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_xla
from conftest import ROOT
from programs import watch

sys.path.insert(0, str(ROOT / "examples"))
STEPS = 50


class Case:
    """A model, how it is trained, and batches for it.

    has_kinks: its gradient jumps where a maximum or a sign changes, so that a rounding error now and then moves it far, eager's as well as ours: such
    jumps are counted, and may not come much oftener than eager's; all other steps keep the bound. launches: programs a step, more than one where the
    model's own code reads a value.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: Callable[[Any], torch.optim.Optimizer],
        loss: Callable,
        batch: Callable[[], tuple],
        has_kinks: bool = False,
        launches: int = 1,
    ) -> None:
        self.model, self.optimizer, self.loss, self.batch = model, optimizer, loss, batch
        self.has_kinks, self.launches = has_kinks, launches


def _classify(model: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(model(images), labels)


def digits_vit() -> Case:
    import vision_data
    import vision_models

    model = vision_models.digits_vit((1, 8, 8), 10)
    batches = iter(vision_data.digits(64, 0, colour=False).train)

    def batch() -> tuple:
        nonlocal batches
        try:
            return next(batches)
        except StopIteration:
            batches = iter(vision_data.digits(64, 1, colour=False).train)
            return next(batches)

    return Case(model, lambda p: torch.optim.AdamW(p, lr=1e-3), _classify, batch)


def resnet18() -> Case:
    import torchvision

    model = torchvision.models.resnet18(num_classes=10)
    optimizer = lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=1e-4)  # noqa: E731
    return Case(model, optimizer, _classify, lambda: (torch.randn(8, 3, 64, 64), torch.randint(0, 10, (8,))), has_kinks=True)


def bert() -> Case:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=500,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=128,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = transformers.BertForMaskedLM(config)

    def batch() -> tuple:
        tokens = torch.randint(0, 500, (4, 24))
        mask = torch.ones(4, 24, dtype=torch.int64)
        mask[1, 20:] = 0
        labels = torch.where(torch.rand(4, 24) < 0.15, tokens, -100)
        labels[:, 0] = tokens[:, 0]
        return tokens, mask, labels

    def loss(net: torch.nn.Module, tokens: torch.Tensor, mask: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return net(input_ids=tokens, attention_mask=mask, labels=labels).loss

    # transformers looks whether the attention mask masks anything (masking_utils), which is a read.
    return Case(model, lambda p: torch.optim.AdamW(p, lr=1e-3), loss, batch, launches=2)


CASES = {"digits_vit": digits_vit, "resnet18": resnet18, "bert": bert}


def _copy_state(source: torch.nn.Module, target: torch.nn.Module) -> None:
    """Parameters and buffers, in place."""
    with torch.no_grad():
        theirs = [*source.parameters(), *source.buffers()]
        for old, new in zip([*target.parameters(), *target.buffers()], theirs, strict=True):
            old.copy_(new)


def _copy_optimizer(source: torch.optim.Optimizer, target: torch.optim.Optimizer) -> None:
    """The optimizer's state, in place where there is one, since a training loop's does not move either."""
    sources = [p for group in source.param_groups for p in group["params"]]
    targets = [p for group in target.param_groups for p in group["params"]]
    with torch.no_grad():
        for old, new in zip(targets, sources, strict=True):
            for name, value in source.state[new].items():
                target.state[old][name].copy_(value)


def _flat(tensors: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.detach().cpu().double().flatten() for tensor in tensors])


def _gradients(model: torch.nn.Module) -> torch.Tensor:
    return _flat([p.grad for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize("name", CASES)
def test_every_step_equals_eager(xla, name: str) -> None:
    case = CASES[name]()
    eager, exact, ours = case.model, copy.deepcopy(case.model).double(), copy.deepcopy(case.model).to(xla)
    for model in (eager, exact, ours):
        model.train()
    eager_optimizer, our_optimizer = case.optimizer(eager.parameters()), case.optimizer(ours.parameters())
    compiles: list[int] = []
    our_errors: list[float] = []
    eager_errors: list[float] = []
    for step in range(STEPS):
        batch = case.batch()
        _copy_state(eager, exact)
        _copy_state(eager, ours)
        if step:
            _copy_optimizer(eager_optimizer, our_optimizer)
        torch_xla.sync(wait=True)
        moved = [tensor.to(xla) for tensor in batch]
        with watch() as work:
            our_optimizer.zero_grad()
            our_loss = case.loss(ours, *moved)
            our_loss.backward()
            our_optimizer.step()
            torch_xla.sync()
        compiles.append(work.compiles)
        assert (work.launches, work.fallbacks) == (case.launches, 0)
        eager_optimizer.zero_grad()
        eager_loss = case.loss(eager, *batch)
        eager_loss.backward()
        exact.zero_grad()
        case.loss(exact, *(tensor.double() if tensor.is_floating_point() else tensor for tensor in batch)).backward()
        torch.testing.assert_close(our_loss.item(), eager_loss.item(), rtol=1e-5, atol=0.0)
        truth = _gradients(exact)
        our_errors.append((_gradients(ours) - truth).norm().item())
        eager_errors.append((_gradients(eager) - truth).norm().item())
        if not case.has_kinks:
            assert our_errors[-1] <= 2 * eager_errors[-1], f"step {step}: gradients are {our_errors[-1]:.3g} from float64, eager's {eager_errors[-1]:.3g}"
        _assert_statistics(ours, eager)
        eager_optimizer.step()
        _assert_update(ours, eager, our_optimizer)
    ratios = [ours / eagers for ours, eagers in zip(our_errors, eager_errors, strict=True)]
    usual = statistics.median(eager_errors)
    our_jumps, eager_jumps = ([error > 10 * usual for error in errors] for errors in (our_errors, eager_errors))
    print(f"{name}: gradients' distance from float64 over eager's: median {statistics.median(ratios):.2f}, worst {max(ratios):.2f};", end=" ")
    print(f"jumps: ours {sum(our_jumps)}, eager's {sum(eager_jumps)} of {STEPS}")
    assert sum(our_jumps) <= 2 * sum(eager_jumps) + 5 and max(our_errors) <= 0.02 * truth.norm().item()
    smooth = [ratio for ratio, ours, eagers in zip(ratios, our_jumps, eager_jumps, strict=True) if not (ours or eagers)]
    assert len(smooth) >= STEPS // 2 and max(smooth) <= 2
    assert sum(compiles[3:]) == 0, f"programs compiled in each step: {compiles}"


def _assert_statistics(ours: torch.nn.Module, eager: torch.nn.Module) -> None:
    for (name, mine), theirs in zip(ours.named_buffers(), eager.buffers(), strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")


def _assert_update(ours: torch.nn.Module, eager: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Updates agree, but for elements whose gradient is rounding noise, which Adam scales up to the learning rate."""
    difference = (_flat(list(ours.parameters())) - _flat(list(eager.parameters()))).abs()
    rate = optimizer.param_groups[0]["lr"]
    assert difference.max().item() <= 2.5 * rate
    assert difference.mean().item() <= 0.02 * rate


@pytest.mark.parametrize("name", CASES)
def test_autocast_steps(xla, name: str) -> None:
    """In bfloat16: as far from float64 as eager's own autocast, give or take its resolution."""
    case = CASES[name]()
    eager, exact, ours = case.model, copy.deepcopy(case.model).double(), copy.deepcopy(case.model).to(xla)
    for model in (eager, exact, ours):
        model.train()
    for _ in range(5):
        batch = case.batch()
        _copy_state(eager, ours)
        _copy_state(eager, exact)
        for model in (eager, exact, ours):
            model.zero_grad()
        with torch.autocast("xla", torch.bfloat16):
            our_loss = case.loss(ours, *(tensor.to(xla) for tensor in batch))
        our_loss.backward()
        torch_xla.sync()
        with torch.autocast("cpu", torch.bfloat16):
            eager_loss = case.loss(eager, *batch)
        eager_loss.backward()
        exact_loss = case.loss(exact, *(tensor.double() if tensor.is_floating_point() else tensor for tensor in batch))
        exact_loss.backward()
        assert abs(our_loss.item() - exact_loss.item()) <= 2 * abs(eager_loss.item() - exact_loss.item()) + 2e-2 * abs(exact_loss.item())
        truth = _gradients(exact)
        our_error, eager_error = (_gradients(ours) - truth).norm().item(), (_gradients(eager) - truth).norm().item()
        assert our_error <= 2 * eager_error + 2**-8 * truth.norm().item(), f"gradients are {our_error:.3g} from float64, eager's {eager_error:.3g}"
        with torch.no_grad():
            for parameter in eager.parameters():
                parameter -= 0.01 * parameter.grad if parameter.grad is not None else 0


OPTIMIZERS = {
    "sgd": lambda p, **k: torch.optim.SGD(p, lr=0.1, **k),
    "momentum": lambda p, **k: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01, **k),
    "nesterov": lambda p, **k: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, **k),
    "adam": lambda p, **k: torch.optim.Adam(p, lr=0.01, amsgrad=True, **k),
    "adamw": lambda p, **k: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1, **k),
    "rmsprop": lambda p, **k: torch.optim.RMSprop(p, lr=0.01, momentum=0.9, centered=True, **k),
    "adagrad": lambda p, **k: torch.optim.Adagrad(p, lr=0.01, **k),
    "nadam": lambda p, **k: torch.optim.NAdam(p, lr=0.01, **k),
    "adamax": lambda p, **k: torch.optim.Adamax(p, lr=0.01, **k),
}


@pytest.mark.parametrize("foreach", [True, False], ids=["foreach", "single"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_given_the_same_gradients(xla, name: str, foreach: bool) -> None:
    start = [torch.randn(5, 3), torch.randn(7), torch.randn(())]
    expected = [tensor.clone().requires_grad_() for tensor in start]
    actual = [tensor.to(xla).requires_grad_() for tensor in start]
    reference, optimizer = OPTIMIZERS[name](expected, foreach=foreach), OPTIMIZERS[name](actual, foreach=foreach)
    compiles = []
    for step in range(8):
        rate = 0.1 / (step + 1)
        for mine, theirs in zip(actual, expected, strict=True):
            theirs.grad = torch.randn_like(theirs)
            mine.grad = theirs.grad.to(xla)
        reference.param_groups[0]["lr"] = optimizer.param_groups[0]["lr"] = rate
        reference.step()
        with watch() as work:
            optimizer.step()
            torch_xla.sync()
        compiles.append(work.compiles)
        assert work.launches == 1
    assert sum(compiles[3:]) == 0
    for mine, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(mine.detach().cpu(), theirs.detach(), rtol=1e-4, atol=1e-5)
