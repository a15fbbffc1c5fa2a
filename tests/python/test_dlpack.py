"""DLPack exchange of device tensors, which on the CPU lie in host memory: shared, not copied."""

import gc

import numpy
import pytest
import torch
import torch_xla
from torch_xla.utils import dlpack

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_to_torch(xla, dtype: torch.dtype) -> None:
    expected = torch.randint(0, 2, (3, 4)).to(dtype)
    shared = torch.from_dlpack(expected.to(xla))
    assert shared.device.type == "cpu" and shared.dtype == dtype
    assert torch.equal(shared, expected)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (2, 3, 4)], ids=str)
def test_shapes(xla, shape: tuple[int, ...]) -> None:
    expected = torch.randn(shape)
    shared = torch.from_dlpack(expected.to(xla))
    assert shared.shape == expected.shape and torch.equal(shared, expected)


def test_memory_is_shared_both_ways(xla) -> None:
    tensor = torch.zeros(4, device=xla)
    shared = numpy.from_dlpack(tensor)
    tensor[1] = 5
    torch_xla.sync(wait=True)
    assert shared.tolist() == [0, 5, 0, 0]
    view = torch.from_dlpack(tensor)
    view[2] = 7
    assert tensor.tolist() == [0, 5, 7, 0]


def test_strided_views(xla) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    for expected, actual in ((base.t(), base.to(xla).t()), (base[1:, ::2], base.to(xla)[1:, ::2])):
        shared = torch.from_dlpack(actual)
        assert shared.stride() == expected.stride() and torch.equal(shared, expected)


def test_lifetime(xla) -> None:
    shared = torch.from_dlpack(torch.arange(1000.0, device=xla) + 1)
    gc.collect()
    for _ in range(5):
        torch.randn(1000, device=xla).sum().item()
    assert shared.sum().item() == 500500


def test_from_numpy_and_torch(xla) -> None:
    array = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    tensor = dlpack.from_dlpack(array)
    assert tensor.is_xla and tensor.tolist() == array.tolist()
    array[0, 0] = 9
    assert tensor[0, 0].item() == 9
    tensor[1, 1] = -1
    torch_xla.sync(wait=True)
    assert array[1, 1] == -1
    host = torch.randn(5)
    assert torch.equal(dlpack.from_dlpack(host.__dlpack__()).cpu(), host)


def test_refusals(xla) -> None:
    tensor = torch.randn(3, device=xla)
    with pytest.raises(BufferError, match="requires grad"):
        tensor.clone().requires_grad_().__dlpack__()
    with pytest.raises(BufferError, match="streams"):
        tensor.__dlpack__(stream=5)
    with pytest.raises(TypeError, match="device xla"):
        dlpack.to_dlpack(torch.randn(3))
    assert tensor.__dlpack_device__() == (1, 0)


def test_versioned_capsule(xla) -> None:
    assert "dltensor_versioned" in repr(torch.randn(3, device=xla).__dlpack__(max_version=(1, 0)))
    assert torch.from_dlpack(torch.ones(3, device=xla).__dlpack__()).tolist() == [1, 1, 1]
