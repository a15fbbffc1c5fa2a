"""DLPack exchange of device tensors, which on the CPU lie in host memory: shared, not copied."""

import ctypes
import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
import torch_xla
from thalweg import _C
from torch_xla.utils import dlpack

if _C.device_kind() != "CPU":
    pytest.skip("device xla computes on a GPU: see tests/python/gpu", allow_module_level=True)

DTYPES = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128, torch.bool),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    *(torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu),
]


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a CPU tensor, for comparing dtypes that have no equality."""
    return tensor.contiguous().view(torch.uint8)


def wait_until(condition: Callable[[], bool]) -> bool:
    """Whether the condition comes true: what is given back to other libraries is given back by a thread of the device."""
    deadline = time.monotonic() + 5
    while not condition() and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.001)
    return condition()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_to_torch(xla, dtype: torch.dtype) -> None:
    expected = torch.randint(0, 2, (3, 4)).to(torch.float32).to(dtype)
    shared = torch.from_dlpack(expected.to(xla))
    assert shared.device.type == "cpu" and shared.dtype == dtype
    assert torch.equal(bits(shared), bits(expected))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("version", [None, (1, 0)], ids=["legacy", "versioned"])
def test_from_torch_capsules(xla, dtype: torch.dtype, version: tuple[int, int] | None) -> None:
    host = torch.randint(0, 2, (3, 4)).to(torch.float32).to(dtype)
    tensor = dlpack.from_dlpack(host.__dlpack__(max_version=version))
    assert tensor.is_xla and tensor.dtype == dtype and tensor.data_ptr() == host.data_ptr()
    assert torch.equal(bits(tensor.cpu()), bits(host))


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


def test_from_dlpack_of_torch_makes_device_tensors(xla) -> None:
    array = numpy.arange(4.0)
    tensor = torch.from_dlpack(array, device="xla")
    assert tensor.is_xla and tensor.data_ptr() == array.ctypes.data
    copy = torch.from_dlpack(array, device=xla, copy=True)
    copy += 1
    torch_xla.sync(wait=True)
    assert array.tolist() == [0, 1, 2, 3] and copy.tolist() == [1, 2, 3, 4]
    assert dlpack.from_dlpack(tensor).data_ptr() == tensor.data_ptr()


def test_copies(xla) -> None:
    tensor = torch.zeros(3, device=xla)
    shared, copied = torch.from_dlpack(tensor), torch.from_dlpack(tensor, copy=True)
    tensor += 1
    torch_xla.sync(wait=True)
    assert shared.tolist() == [1, 1, 1] and copied.tolist() == [0, 0, 0]


def test_a_read_only_array_is_never_written(xla) -> None:
    array = numpy.zeros(4)
    array.flags.writeable = False
    for write in (lambda t: t.add_(1), lambda t: t[1:].fill_(1), lambda t: torch.from_dlpack(t).fill_(1), lambda t: ctypes.memset(t.data_ptr(), 1, 8)):
        tensor = dlpack.from_dlpack(array)
        assert tensor.sum().item() == 0
        write(tensor)
        torch_xla.sync(wait=True)
        assert tensor.sum().item() > 0
        assert array.tolist() == [0, 0, 0, 0]


def test_read_only_export(xla) -> None:
    tensor = torch.zeros(3, device=xla)
    assert not numpy.from_dlpack(Producer(lambda **_: tensor.__dlpack__(max_version=(1, 0), read_only=True))).flags.writeable
    assert numpy.from_dlpack(tensor).flags.writeable
    with pytest.raises(BufferError, match="versioned"):
        tensor.__dlpack__(read_only=True)
    wrapper = getattr(torch.utils.dlpack, "ReadOnlyTensorWrapper", None)
    if wrapper is not None:
        assert not numpy.from_dlpack(wrapper(tensor)).flags.writeable


class Producer:
    """An array of another library, by its `__dlpack__`."""

    def __init__(self, export: Callable[..., Any], device: tuple[int, int] = (1, 0)) -> None:
        self.export, self.device = export, device

    def __dlpack__(self, **arguments: Any) -> Any:
        return self.export(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


def test_case_57_producers_of_every_age(xla) -> None:
    host = torch.arange(4.0)
    seen: list[dict[str, Any]] = []

    def new(**arguments: Any) -> Any:
        seen.append(arguments)
        return host.__dlpack__(max_version=(1, 0))

    def old() -> Any:
        return host.__dlpack__()

    for export in (new, old):
        assert dlpack.from_dlpack(Producer(export)).data_ptr() == host.data_ptr()
    assert seen[0]["max_version"] >= (1, 0)

    def broken(**arguments: Any) -> Any:
        raise RuntimeError("no memory today")

    with pytest.raises(RuntimeError, match="no memory today"):
        dlpack.from_dlpack(Producer(broken))


def test_case_51_stream_arguments(xla) -> None:
    tensor = torch.ones(3, device=xla)
    for stream in (None, -1):
        assert torch.from_dlpack(tensor.__dlpack__(stream=stream)).tolist() == [1, 1, 1]
    for stream in (0, 1, 2, 3, 2**63 - 1):
        with pytest.raises(BufferError, match="streams"):
            tensor.__dlpack__(stream=stream)
    with pytest.raises((TypeError, OverflowError)):
        tensor.__dlpack__(stream=2**70)
    with pytest.raises(TypeError, match="stream"):
        tensor.__dlpack__(stream="one")
    tensor.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError, match="device"):
        tensor.__dlpack__(dl_device=(2, 0))


def test_case_49_consumed_capsules_and_what_is_no_array(xla) -> None:
    for array, message in ((numpy.arange(4)[::-1], "backwards"), (numpy.broadcast_to(numpy.arange(3), (2, 3)), "overlap")):
        with pytest.raises(BufferError, match=message):
            dlpack.from_dlpack(array)
    with pytest.raises(BufferError, match="aligned"):
        dlpack.from_dlpack(numpy.frombuffer(bytearray(17), dtype=numpy.float32, offset=1))
    with pytest.raises(TypeError, match="__dlpack__"):
        dlpack.from_dlpack([1, 2])
    capsule = torch.ones(3).__dlpack__()
    dlpack.from_dlpack(capsule)
    with pytest.raises(BufferError, match="consumed"):
        dlpack.from_dlpack(capsule)
    with pytest.raises(BufferError, match="to\\('cpu'\\)"):
        dlpack.from_dlpack(torch.ones(3, device="meta"))


def test_both_sides_keep_the_memory(xla) -> None:
    array = numpy.arange(1000.0)
    alive = weakref.ref(array)
    tensor = dlpack.from_dlpack(array)
    del array
    gc.collect()
    assert alive() is not None and tensor.sum().item() == 499500
    doubled = tensor * 2
    del tensor
    assert doubled.sum().item() == 999000
    del doubled
    torch_xla.sync(wait=True)
    assert wait_until(lambda: alive() is None)


def test_memory_returns_when_the_consumer_is_done(xla) -> None:
    torch_xla.sync(wait=True)
    before = torch.xla.memory_allocated()
    tensor = torch.zeros(1 << 20, device=xla) + 1
    shared = torch.from_dlpack(tensor)
    dropped = tensor.__dlpack__()
    del tensor, dropped
    assert torch.xla.memory_allocated() - before >= 4 << 20
    assert shared.sum().item() == 1 << 20
    del shared
    assert wait_until(lambda: torch.xla.memory_allocated() - before < 1 << 20)


def test_exchange_on_many_threads(xla) -> None:
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for i in range(50):
                array = numpy.full(257, seed * 100 + i, dtype=numpy.float32)
                tensor = dlpack.from_dlpack(array)
                result = numpy.from_dlpack(tensor + 1)
                del array, tensor
                assert (result == seed * 100 + i + 1).all()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads) and not errors


def test_case_56_a_ring_of_libraries(xla) -> None:
    start = numpy.arange(5.0)
    end = numpy.from_dlpack(torch.from_dlpack(dlpack.from_dlpack(torch.from_dlpack(start))))
    end[2] = -1
    assert start[2] == -1 and start.ctypes.data == end.ctypes.data


EXIT = """
import numpy, torch, torch_xla
from torch_xla.utils import dlpack
kept = dlpack.from_dlpack(numpy.arange(1e6))
shared = numpy.from_dlpack(torch.arange(1000.0, device="xla") + 1)
pending = kept * 2 + 1
capsule = pending.__dlpack__()
print("alive", shared.sum())
"""


def test_interpreter_shutdown() -> None:
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", EXIT], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stdout == "alive 500500.0\n" and done.stderr == "", done
    assert time.monotonic() - started < 30


class Array(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        *(("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_index", ctypes.c_int32), ("rank", ctypes.c_int32)),
        *(("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)),
        *(("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)),
    ]


class Managed(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [
        *(("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("owner", ctypes.c_void_p), ("deleter", ctypes.c_void_p)),
        *(("flags", ctypes.c_uint64), ("array", Array)),
    ]


ToManaged = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.POINTER(Managed)))


class Table(ctypes.Structure):
    """DLPackExchangeAPI."""

    _fields_ = [
        *(("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p), ("allocate", ctypes.c_void_p)),
        ("to_managed", ToManaged),
        ("from_managed", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.POINTER(Managed), ctypes.POINTER(ctypes.py_object))),
        ("to_array", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Array))),
        ("current_work_stream", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))),
    ]


def table_of(kind: type) -> Table:
    """The C functions of a tensor type."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return Table.from_address(pointer(kind.__dlpack_c_exchange_api__, b"dlpack_exchange_api"))


def test_the_c_functions(xla) -> None:
    table = table_of(torch.Tensor)
    assert (table.major, table.minor) >= (1, 3)
    for tensor in (torch.arange(12.0, device=xla).reshape(3, 4)[1:, ::2], torch.arange(12.0).reshape(3, 4)[1:, ::2]):
        array = Array()
        assert table.to_array(tensor, array) == 0
        assert (array.rank, array.code, array.bits, array.lanes, array.device_type) == (2, 2, 32, 1, 1)
        assert (array.shape[:2], array.strides[:2]) == ([2, 2], [4, 2])
        assert ctypes.c_float.from_address(array.data + array.byte_offset + 4 * 4 + 2 * 4).value == 10
        managed = ctypes.POINTER(Managed)()
        assert table.to_managed(tensor, managed) == 0
        assert managed.contents.array.shape[:2] == [2, 2] and not managed.contents.flags & 1
        back = ctypes.py_object()
        assert table.from_managed(managed, back) == 0
        assert torch.equal(back.value, tensor.cpu())
    stream = ctypes.c_void_p(1)
    assert table.current_work_stream(1, 0, stream) == 0 and stream.value is None


def test_the_c_functions_raise(xla) -> None:
    table = table_of(torch.Tensor)
    tensor = torch.ones(2, device=xla, requires_grad=True)
    with pytest.raises(BufferError, match="requires grad"):
        table.to_array(tensor, Array())
    with pytest.raises(BufferError, match="requires grad"):
        table.to_managed(tensor, ctypes.POINTER(Managed)())


def test_the_c_functions_lend_wrapped_tensors_read_only(xla) -> None:
    wrapper = getattr(torch.utils.dlpack, "ReadOnlyTensorWrapper", None)
    if wrapper is None:
        pytest.skip("this PyTorch has no read-only wrapper")
    managed = ctypes.POINTER(Managed)()
    assert table_of(wrapper).to_managed(wrapper(torch.ones(2, device=xla)), managed) == 0
    assert managed.contents.flags & 1
    ctypes.CFUNCTYPE(None, ctypes.POINTER(Managed))(managed.contents.deleter)(managed)


def test_case_57b_imports_through_the_c_functions(xla) -> None:
    """An array of a library that offers a table with a newer one before it."""
    table = table_of(torch.Tensor)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

    host = torch.arange(3.0)

    class Foreign:
        """Not a tensor: only its table says how to get at the memory."""

    lend = ToManaged(lambda array, out: table.to_managed(host, out))
    own = Table(major=1, minor=3, to_managed=lend)
    first = Table(major=9, minor=0, previous=ctypes.addressof(own))
    Foreign.__dlpack_c_exchange_api__ = new(ctypes.addressof(first), b"dlpack_exchange_api", None)
    tensor = dlpack.from_dlpack(Foreign())
    assert tensor.data_ptr() == host.data_ptr()


def test_jax(xla) -> None:
    jax = pytest.importorskip("jax")
    tensor = torch.arange(6.0, device=xla).reshape(2, 3)
    array = jax.numpy.from_dlpack(tensor)
    assert array.tolist() == tensor.tolist()
    back = dlpack.from_dlpack(array * 2)
    assert back.is_xla and back.tolist() == (tensor * 2).tolist()
