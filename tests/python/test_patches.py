"""Each change of core's Python: still needed, in place, and doing what it is for."""

import copy
import io

import pytest
import torch
from programs import assert_same
from thalweg import _C, patches


@pytest.mark.parametrize("name", [patch.name for patch in patches.PATCHES])
def test_still_needed(name: str) -> None:
    assert name in patches.applied, f"core does this by itself now: delete the patch {name!r}"


@pytest.mark.parametrize("patch", patches.PATCHES, ids=lambda patch: patch.name)
def test_in_place(patch: patches.Patch) -> None:
    assert not patch.needed(), f"{patch.name} does not bring what it asks for"


def test_apply_again_changes_nothing() -> None:
    before, method = list(patches.applied), torch.Tensor.data_ptr
    patches.apply()
    assert patches.applied == before and torch.Tensor.data_ptr is method


def test_manual_seed_reaches_the_device(xla) -> None:
    torch.manual_seed(3)
    first = torch.rand(100, device=xla).cpu()
    torch.manual_seed(3)
    assert torch.equal(first, torch.rand(100, device=xla).cpu())
    torch.manual_seed(4)
    assert not torch.equal(first, torch.rand(100, device=xla).cpu())


def test_fork_rng_restores_the_device(xla) -> None:
    torch.manual_seed(3)
    first = torch.rand(8, device=xla).cpu()
    torch.manual_seed(3)
    with torch.random.fork_rng():
        torch.rand(20, device=xla)
        torch.manual_seed(9)
    assert torch.equal(first, torch.rand(8, device=xla).cpu())


@pytest.mark.parametrize("kwargs", [{}, {"foreach": True}, {"foreach": True, "capturable": True}, {"fused": True}, {"foreach": False}], ids=str)
def test_adam_variants(xla, kwargs: dict) -> None:
    start = [torch.randn(4, 3), torch.randn(5)]
    expected = [tensor.clone().requires_grad_() for tensor in start]
    actual = [tensor.to(xla).requires_grad_() for tensor in start]
    reference = torch.optim.Adam(expected, lr=1e-2)
    optimizer = torch.optim.Adam(actual, lr=1e-2, **kwargs)
    for _ in range(5):
        for mine, theirs in zip(actual, expected, strict=True):
            theirs.grad = torch.randn_like(theirs)
            mine.grad = theirs.grad.to(xla)
        reference.step()
        optimizer.step()
    for mine, theirs in zip(actual, expected, strict=True):
        assert_same(mine, theirs)


def test_clip_grad_norm_foreach(xla) -> None:
    expected = [torch.randn(7, requires_grad=True), torch.randn(2, 3, requires_grad=True)]
    for tensor in expected:
        tensor.grad = torch.randn_like(tensor)
    actual = [tensor.detach().to(xla).requires_grad_() for tensor in expected]
    for mine, theirs in zip(actual, expected, strict=True):
        mine.grad = theirs.grad.to(xla)
    norm = torch.nn.utils.clip_grad_norm_(actual, 0.5, foreach=True)
    assert_same(norm, torch.nn.utils.clip_grad_norm_(expected, 0.5))
    for mine, theirs in zip(actual, expected, strict=True):
        assert_same(mine.grad, theirs.grad)


@pytest.mark.skipif(_C.device_kind() != "CPU", reason="the address is a GPU's: see tests/python/gpu")
def test_data_ptr_is_the_value_and_stays(xla) -> None:
    import ctypes

    tensor = torch.arange(6.0).to(xla) * 2
    address = tensor.data_ptr()
    read = (ctypes.c_float * 6).from_address(address)
    assert list(read) == [0, 2, 4, 6, 8, 10]
    assert tensor[2:].data_ptr() == address + 8
    assert tensor.untyped_storage().data_ptr() == address
    tensor.add_(1)
    torch.xla.synchronize()
    assert list(read) == [1, 3, 5, 7, 9, 11]
    assert tensor.data_ptr() == address


def test_save_and_load_keep_views(xla) -> None:
    base = torch.randn(4, 5).to(xla)
    saved = {"base": base, "row": base[1], "turned": base.t(), "again": base}
    file = io.BytesIO()
    torch.save(saved, file)
    for location in ("xla", "cpu", None):
        file.seek(0)
        loaded = torch.load(file, map_location=location, weights_only=True)
        assert loaded["base"].device.type == (location or "xla")
        torch.testing.assert_close(loaded["base"].cpu(), base.cpu())
        assert loaded["turned"].stride() == base.t().stride()
        loaded["row"].fill_(7)
        assert loaded["base"][1].tolist() == [7.0] * 5
        assert loaded["turned"][:, 1].tolist() == [7.0] * 5
        assert loaded["again"] is loaded["base"]


def test_load_cpu_file_onto_the_device(xla) -> None:
    base = torch.randn(3, 4)
    file = io.BytesIO()
    torch.save({"base": base, "row": base[2]}, file)
    file.seek(0)
    loaded = torch.load(file, map_location="xla", weights_only=True)
    assert loaded["base"].is_xla
    loaded["row"].zero_()
    expected = base.clone()
    expected[2] = 0
    torch.testing.assert_close(loaded["base"].cpu(), expected)


def test_load_without_the_package(xla, run_python, tmp_path) -> None:
    torch.save(torch.arange(5.0).to(xla), tmp_path / "tensor.pt")
    code, output, errors = run_python(f"import torch; print(torch.load({str(tmp_path / 'tensor.pt')!r}, map_location='cpu').tolist())")
    assert code == 0, errors
    assert output.strip() == "[0.0, 1.0, 2.0, 3.0, 4.0]"


def test_deepcopy_keeps_views_and_grads(xla) -> None:
    base = torch.randn(4, 4).to(xla)
    both = copy.deepcopy({"base": base, "column": base[:, 1]})
    both["column"].fill_(3)
    assert both["base"][:, 1].tolist() == [3.0] * 4
    assert base[:, 1].tolist() != [3.0] * 4
    leaf = torch.randn(3).to(xla).requires_grad_()
    (leaf * 2).sum().backward()
    copied = copy.deepcopy(leaf)
    assert copied.requires_grad and copied.grad.tolist() == [2.0] * 3 and copied.grad is not leaf.grad


def test_tied_weights_survive(xla) -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
            self.b.weight = self.a.weight

    model = Tied().to(xla)
    assert model.b.weight is model.a.weight
    copied = copy.deepcopy(model)
    assert copied.b.weight is copied.a.weight and copied.a.weight is not model.a.weight
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    state = torch.load(file)
    state["a.weight"].fill_(1)
    assert state["b.weight"].tolist() == [[1.0] * 3] * 3
