"""Guest mode on a GPU: Thalweg's memory comes in slabs from PyTorch's allocator, whose numbers then hold it."""

import ctypes
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

_BUILD = pathlib.Path(os.environ.get("THALWEG_GPU_BUILD", "build/gpu"))
_PATH = _BUILD / "libbudget_library.so"
if not _PATH.exists():
    pytest.skip(f"{_PATH} is not built; see tools/gpu_test", allow_module_level=True)

Take = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_size_t)
Give = ctypes.CFUNCTYPE(None, ctypes.c_size_t)


class Guest:
    """Thalweg's allocator on GPU 0 as PyTorch's guest."""

    def __init__(self) -> None:
        torch.zeros(1, device="cuda")
        self.stream = torch.cuda.Stream()  # PyTorch runs nothing on it: what it lends there, nobody else is using
        self.lent: dict[int, int] = {}
        self.library = ctypes.CDLL(str(_PATH.resolve()))
        self.library.thalweg_allocate.restype = ctypes.c_void_p
        self.library.thalweg_allocate.argtypes = [ctypes.c_size_t, ctypes.c_int]
        self.library.thalweg_data.restype = ctypes.c_void_p
        self.library.thalweg_data.argtypes = [ctypes.c_void_p]
        self.library.thalweg_free.argtypes = [ctypes.c_void_p]
        self.library.thalweg_error.restype = ctypes.c_char_p
        self.library.thalweg_reserved.restype = ctypes.c_size_t
        self.library.thalweg_trim.restype = ctypes.c_size_t

        def take(size: int) -> int:
            try:
                base = torch.cuda.caching_allocator_alloc(size, 0, self.stream)
            except torch.OutOfMemoryError:
                return 0
            self.lent[base] = size
            return base

        def give(base: int) -> None:
            del self.lent[base]
            torch.cuda.caching_allocator_delete(base)

        self.callbacks = (Take(take), Give(give))
        self.library.thalweg_borrow(*self.callbacks)

    def allocate(self, size: int, value: int = 0) -> int:
        handle = self.library.thalweg_allocate(size, value)
        if not handle:
            raise MemoryError(self.library.thalweg_error().decode())
        return handle

    def free(self, handle: int) -> None:
        self.library.thalweg_free(handle)

    def trim(self) -> int:
        self.library.thalweg_synchronize()
        return self.library.thalweg_trim()


@pytest.fixture
def guest():
    made = Guest()
    yield made
    made.trim()
    assert not made.lent
    made.library.thalweg_borrow(None, None)
    torch.cuda.empty_cache()


def test_pytorch_counts_what_it_lends(guest: Guest) -> None:
    before = torch.cuda.memory_allocated()
    handles = [guest.allocate(10 << 20, 3) for _ in range(20)]
    lent = sum(guest.lent.values())
    assert torch.cuda.memory_allocated() - before >= lent >= 200 << 20
    assert guest.library.thalweg_reserved() == lent
    assert all(any(base <= guest.library.thalweg_data(handle) < base + size for base, size in guest.lent.items()) for handle in handles)
    for handle in handles:
        guest.free(handle)
    assert guest.trim() == lent
    assert torch.cuda.memory_allocated() == before


def test_steady_state_asks_nobody(guest: Guest) -> None:
    guest.free(guest.allocate(30 << 20, 1))
    lent = dict(guest.lent)
    for value in range(200):
        guest.free(guest.allocate(30 << 20, value % 256))
    assert guest.lent == lent


def test_a_full_card_is_an_error_on_both_sides_and_goes_by(guest: Guest) -> None:
    free = torch.cuda.mem_get_info()[0]
    size = free // 20
    handles = []
    with pytest.raises(MemoryError, match="out of memory"):
        for _ in range(25):
            handles.append(guest.allocate(size, 7))
    assert len(handles) >= 17
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(size * 5, dtype=torch.uint8, device="cuda")
    for handle in handles:
        guest.free(handle)
    guest.trim()
    tensor = torch.full((size * 15,), 5, dtype=torch.uint8, device="cuda")
    assert int(tensor[-1]) == 5
    del tensor
    handle = guest.allocate(size * 15, 9)  # PyTorch empties its own cache first
    guest.free(handle)


def test_the_device_as_a_guest() -> None:
    """Device xla with THALWEG_GPU_MEMORY=torch, where it is built."""
    script = """
        import torch
        torch.cuda.init()  # or PyTorch says 0 of what it has
        import torch_xla
        x = torch.randn(2000, 2000, device="xla")
        torch_xla.sync(wait=True)
        held = torch.cuda.memory_allocated()
        assert held >= 16_000_000, held
        y = (x @ x).relu().sum()
        for _ in range(50):
            x = x * 1.01
            torch_xla.sync()
        assert torch.allclose(y.cpu(), (x.cpu() / 1.01**50 @ (x.cpu() / 1.01**50)).relu().sum(), rtol=1e-2)
        big = torch.zeros(1 << 28, device="xla")
        assert big[5].item() == 0 and torch.cuda.memory_allocated() >= 1 << 30
        print("a good guest")
    """
    environment = {**os.environ, "THALWEG_GPU_MEMORY": "torch", "PJRT_DEVICE": "CUDA"}
    found = subprocess.run([sys.executable, "-c", "import thalweg._C"], env=environment, capture_output=True, timeout=120, check=False)
    if found.returncode:
        pytest.skip("the torch device is not built here")
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and "a good guest" in done.stdout, done.stderr[-3000:]
