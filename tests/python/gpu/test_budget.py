"""One memory budget with PyTorch on a GPU: either side fills the card, then the other allocates."""

import ctypes
import os
import pathlib

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

_BUILD = pathlib.Path(os.environ.get("THALWEG_GPU_BUILD", "build/gpu"))
_PATH = _BUILD / "libbudget_library.so"
if not _PATH.exists():
    pytest.skip(f"{_PATH} is not built; see tools/gpu_test", allow_module_level=True)

EmptyCache = ctypes.CFUNCTYPE(None)


class Thalweg:
    """Thalweg's allocator on GPU 0, in the budget with PyTorch's."""

    def __init__(self) -> None:
        torch.cuda.init()
        torch.zeros(1, device="cuda")
        self.library = ctypes.CDLL(str(_PATH.resolve()))
        self.library.thalweg_allocate.restype = ctypes.c_void_p
        self.library.thalweg_allocate.argtypes = [ctypes.c_size_t, ctypes.c_int]
        self.library.thalweg_data.restype = ctypes.c_void_p
        self.library.thalweg_data.argtypes = [ctypes.c_void_p]
        self.library.thalweg_free.argtypes = [ctypes.c_void_p]
        self.library.thalweg_error.restype = ctypes.c_char_p
        self.library.thalweg_reserved.restype = ctypes.c_size_t
        self.library.thalweg_trim.restype = ctypes.c_size_t
        self.emptied = 0

        def empty() -> None:
            self.emptied += 1
            torch.cuda.empty_cache()

        self.callback = EmptyCache(empty)
        assert self.library.thalweg_share(self.callback) == 1

    def allocate(self, size: int, value: int = 0) -> int:
        handle = self.library.thalweg_allocate(size, value)
        if not handle:
            raise MemoryError(self.library.thalweg_error().decode())
        return handle

    def free(self, handle: int) -> None:
        self.library.thalweg_free(handle)


@pytest.fixture(scope="module")
def thalweg() -> Thalweg:
    return Thalweg()


@pytest.fixture(autouse=True)
def clean(thalweg: Thalweg):
    yield
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    thalweg.library.thalweg_synchronize()
    thalweg.library.thalweg_trim()


def card() -> int:
    return torch.cuda.mem_get_info()[0]


def test_nothing_is_set_aside(thalweg: Thalweg) -> None:
    total = torch.cuda.mem_get_info()[1]
    assert card() > 0.97 * total - (1 << 30)
    assert thalweg.library.thalweg_reserved() == 0


def test_pytorch_fills_the_card_then_thalweg_allocates(thalweg: Thalweg) -> None:
    free = card()
    size = int(0.95 * free) // 19
    tensors = [torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(19)]
    before = thalweg.emptied
    with pytest.raises(MemoryError, match="out of memory"):
        thalweg.allocate(size * 10)  # PyTorch's tensors are alive
    assert thalweg.emptied == before + 1
    del tensors
    handle = thalweg.allocate(size * 17, 3)  # they are not, but PyTorch keeps the memory
    assert thalweg.emptied == before + 2
    thalweg.library.thalweg_synchronize()
    thalweg.free(handle)


def test_thalweg_fills_the_card_then_pytorch_allocates(thalweg: Thalweg) -> None:
    free = card()
    size = int(0.95 * free) // 19
    handles = [thalweg.allocate(size, 1) for _ in range(19)]
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(size * 10, dtype=torch.uint8, device="cuda")
    for handle in handles:
        thalweg.free(handle)
    thalweg.library.thalweg_synchronize()
    assert thalweg.library.thalweg_reserved() > 0.9 * free
    tensor = torch.full((size * 17,), 7, dtype=torch.uint8, device="cuda")
    assert int(tensor[-1]) == 7
    assert thalweg.library.thalweg_reserved() < 0.1 * free


def test_what_is_in_use_never_moves(thalweg: Thalweg) -> None:
    free = card()
    handle = thalweg.allocate(free // 3, 5)
    tensors = [torch.full((free // 20,), 9, dtype=torch.uint8, device="cuda") for _ in range(11)]
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(free // 2, dtype=torch.uint8, device="cuda")
    with pytest.raises(MemoryError):
        thalweg.allocate(free // 2)
    assert all(int(tensor.max()) == 9 and int(tensor.min()) == 9 for tensor in tensors)
    thalweg.free(handle)


def test_turns_of_growing_work_on_both_sides(thalweg: Thalweg) -> None:
    free = card()
    for turn in range(6):
        size = int(free * (0.5 + 0.07 * turn))
        if turn % 2:
            handle = thalweg.allocate(size, turn)
            thalweg.library.thalweg_synchronize()
            thalweg.free(handle)
        else:
            tensor = torch.full((size,), turn, dtype=torch.uint8, device="cuda")
            assert int(tensor[size // 2]) == turn
            del tensor


def test_out_of_memory_names_sizes_and_holders(thalweg: Thalweg) -> None:
    handle = thalweg.allocate(3 << 30, 1)
    with pytest.raises(MemoryError) as caught:
        thalweg.allocate(1 << 39)
    text = str(caught.value)
    assert "512.00 GiB" in text and "1 buffer of filled" in text and "live 3.00 GiB" in text
    thalweg.free(handle)
    thalweg.free(thalweg.allocate(1 << 20))  # and the process goes on
