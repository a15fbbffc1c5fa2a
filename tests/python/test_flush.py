"""When the device runs, what it compiles and why, and what a step costs in programs."""

import pytest
import thalweg
import torch
import torch_xla
from programs import watch


def _model(xla) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)).to(xla)


def _step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-4),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-3, betas=(0.8, 0.9)),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-3, momentum=0.5),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_is_one_program_and_one_launch(xla, name: str) -> None:
    model = _model(xla)
    optimizer = OPTIMIZERS[name](model.parameters())
    x, y = torch.randn(8, 6).to(xla), torch.randint(0, 4, (8,)).to(xla)
    for _ in range(3):
        _step(model, optimizer, x, y)
        torch_xla.sync()
    with watch() as work:
        for _ in range(5):
            _step(model, optimizer, x, y)
            torch_xla.sync()
    assert (work.launches, work.compiles, work.fallbacks) == (5, 0, 0)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_new_learning_rate_compiles_nothing(xla, name: str) -> None:
    model = _model(xla)
    optimizer = OPTIMIZERS[name](model.parameters())
    x, y = torch.randn(8, 6).to(xla), torch.randint(0, 4, (8,)).to(xla)
    for _ in range(3):
        _step(model, optimizer, x, y)
        torch_xla.sync()
    with watch() as work:
        for rate in (0.5, 0.0, 1.0, 0.25, 1e-3, 1e-3):
            optimizer.param_groups[0]["lr"] = rate
            _step(model, optimizer, x, y)
            torch_xla.sync()
    assert work.compiles == 0


def test_scalars_that_become_equal_compile_nothing(xla) -> None:
    x, y = torch.randn(4, device=xla), torch.randn(4, device=xla)
    torch_xla.sync()
    expected = []
    compiles = []
    for second in (0.5, 2.0, 3.0, 1.0, 0.0):
        with watch() as work:
            z = torch.add(torch.add(x, y, alpha=2.0), y, alpha=second)
            torch_xla.sync()
        compiles.append(work.compiles)
        expected.append((z.cpu(), x.cpu() + 2 * y.cpu() + second * y.cpu()))
    assert sum(compiles[1:]) == 0
    for mine, theirs in expected:
        torch.testing.assert_close(mine, theirs)


def test_a_value_read_flushes_once_and_says_so(xla) -> None:
    x = torch.randn(4, device=xla)
    torch_xla.sync(wait=True)
    with watch() as work:
        total = (x * 2).sum()
        total.item()
        total.item()
    assert work.launches == 1
    flush = thalweg.flushes(1)[0]
    assert flush.reason != "sync" and "test_flush.py" in flush.line


def test_compile_reasons(xla) -> None:
    def program(rows: int) -> None:
        x = torch.randn(rows, 7).to(xla)
        torch_xla.sync()
        (x.tanh() * 3 + x.sum()).sum(0)
        y = x.cos().exp() + 1
        torch_xla.sync()
        assert y.shape == (rows, 7)

    program(5)
    first = thalweg.flushes(1)[0]
    assert first.compiled and first.why
    program(5)
    assert not thalweg.flushes(1)[0].compiled
    program(6)
    changed = thalweg.flushes(1)[0]
    assert changed.compiled and "5,7" in changed.why.replace(" ", "") and "6,7" in changed.why.replace(" ", "")
    assert "6,7" in str(torch_xla.explain(1)).replace(" ", "")


def test_nothing_pending_launches_nothing(xla) -> None:
    torch_xla.sync()
    with watch() as work:
        torch_xla.sync()
        torch_xla.sync(wait=True)
    assert work.launches == 0


def test_dead_results_are_not_computed(xla) -> None:
    x = torch.randn(4, device=xla)
    torch_xla.sync()
    with watch() as work:
        for _ in range(3):
            _ = torch.linalg.norm(x * 2)
        del _
        torch_xla.sync()
    assert work.launches == 0


def test_budget_flushes_at_the_same_place(xla) -> None:
    from thalweg import _C

    _C.set_flush_budget(50)
    try:
        x = torch.ones(3, device=xla)
        torch_xla.sync()
        counts = []
        for _ in range(3):
            with watch() as work:
                y = x
                for _ in range(120):
                    y = y + 1
                torch_xla.sync()
            counts.append((work.launches, work.compiles))
            assert y.tolist() == [121.0] * 3
        assert counts[0][0] >= 3
        assert counts[1] == counts[2] and counts[2][1] == 0
    finally:
        _C.set_flush_budget(100_000)


def test_eager_mode_gives_the_same(xla) -> None:
    x = torch.randn(5, device=xla)
    expected = ((x * 2).tanh() + 1).cpu()
    thalweg.set_eager(True)
    with watch() as work:
        actual = (x * 2).tanh() + 1
    thalweg.set_eager(False)
    assert work.launches >= 3
    torch.testing.assert_close(actual.cpu(), expected)


def test_run_ahead_is_bounded(xla) -> None:
    x = torch.randn(256, 256, device=xla)
    torch_xla.sync(wait=True)
    before = thalweg.memory_info()["live"] + thalweg.memory_info()["pending"]
    peak = 0
    for _ in range(300):
        x = torch.tanh(x @ x)
        torch_xla.sync()
        info = thalweg.memory_info()
        peak = max(peak, info["live"] + info["pending"] - before)
    torch_xla.sync(wait=True)
    assert peak < 100 * 256 * 256 * 4


def test_memory_is_given_back(xla) -> None:
    torch_xla.sync(wait=True)
    before = thalweg.memory_info()["live"]
    big = torch.ones(1000, 1000, device=xla)
    torch_xla.sync(wait=True)
    assert thalweg.memory_info()["live"] - before >= 4_000_000
    del big
    torch_xla.sync(wait=True)
    assert thalweg.memory_info()["live"] - before < 100_000


def test_parameters_are_updated_in_place(xla) -> None:
    """A step needs room for the parameters once, not twice: their old bytes are reused."""
    model = torch.nn.Linear(512, 512).to(xla)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(4, 512).to(xla)
    for _ in range(3):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        torch_xla.sync(wait=True)
    live = thalweg.memory_info()["live"]
    assert live < 6 * 512 * 512 * 4


def test_checkpointing_saves_memory(xla) -> None:
    """Recomputation in backward must not be merged with forward's."""

    def peak(checkpointed: bool) -> int:
        layers = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh()) for _ in range(6))
        layers.to(xla)
        x = torch.randn(4096, 64).to(xla).requires_grad_()
        torch_xla.sync(wait=True)
        before = thalweg.memory_info()["live"]
        y = x
        for layer in layers:
            y = torch.utils.checkpoint.checkpoint(layer, y, use_reentrant=False) if checkpointed else layer(y)
        y.sum().backward()
        torch_xla.sync(wait=True)
        grad = x.grad.cpu()
        text_peak = thalweg.memory_info()["peak_live"] - before
        assert grad.shape == x.shape
        return text_peak

    torch.xla.reset_peak_memory_stats()
    plain = peak(False)
    torch.xla.reset_peak_memory_stats()
    assert peak(True) < 0.8 * plain


def test_text_of_the_tensors_asked_for(xla) -> None:
    import torch_xla.core.xla_model as xm

    a = torch.ones(3, device=xla)
    torch_xla.sync()
    sine, root = a.sin(), a.sqrt()
    everything, only_root = xm.get_stablehlo(), xm.get_stablehlo([root])
    assert "sine" in everything and "sqrt" in everything
    assert "sqrt" in only_root and "sine" not in only_root
    torch_xla.sync()
    assert xm.get_stablehlo([root]) == "", "nothing of it is pending any more"
    torch.testing.assert_close(sine.cpu(), torch.ones(3).sin())


SAVING = """
import torch, torch_xla
a = torch.ones(3, device="xla")
torch_xla.sync()
for _ in range(3):
    print((a.sin() * 2).sum().item())
"""


def test_programs_are_saved_as_they_are_compiled(run_python, tmp_path) -> None:
    path = tmp_path / "programs.mlir"
    code, out, error = run_python(SAVING, environment={"XLA_SAVE_TENSORS_FILE": str(path)})
    assert code == 0, error
    assert len(set(out.split())) == 1
    text = path.read_text()
    assert text.count("stablehlo.sine") == 1 and "// compiled: first time" in text and "// flushed by: " in text
    code, _, error = run_python(SAVING, environment={"XLA_SAVE_TENSORS_FILE": str(tmp_path / "no" / "folder")})
    assert code == 0 and error.count("XLA_SAVE_TENSORS_FILE cannot be written") == 1, error
