"""Device xla on a GPU beside PyTorch's CUDA: copies, sharing, DLPack, fallbacks, modes. Each against the CPU or CUDA eager."""

import gc
import threading
from collections.abc import Callable

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

pytest.importorskip("thalweg", reason="the torch device is not built")
import thalweg
import torch_xla
from thalweg import _C
from torch_xla.utils import dlpack

if _C.device_kind() != "CUDA":
    pytest.skip("device xla computes on the CPU (PJRT_DEVICE)", allow_module_level=True)

CUDA = torch.device("cuda", 0)
DTYPES = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.bool, torch.int64, torch.int32, torch.uint8, torch.uint16),
    *(torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu),
]


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor on the CPU."""
    return tensor.cpu().contiguous().view(-1).view(torch.uint8)


def sample(dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randint(0, 2, shape).to(torch.float32).to(dtype)


def test_names(xla) -> None:
    assert torch_xla.real_devices() == ["CUDA:0"] and torch_xla.runtime.device_type() == "CUDA"
    with pytest.raises(RuntimeError, match="one xla device"):
        torch.ones(2, device="xla:1")
    assert torch.ones(1, device=xla).__dlpack_device__() == (2, 0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 5), (2, 3, 4)], ids=str)
def test_there_and_back(xla, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    host = sample(dtype, shape)
    tensor = host.to(xla)
    cuda = tensor.cuda()
    assert cuda.device == CUDA and cuda.dtype == dtype and cuda.shape == host.shape
    assert torch.equal(bits(cuda), bits(host))
    back = cuda.to(xla)
    assert back.is_xla and torch.equal(bits(back), bits(host))


def test_cuda_shares_until_a_write(xla) -> None:
    tensor = torch.arange(1000.0, device=xla) * 2
    expected = tensor.cpu()
    cuda = tensor.cuda()
    assert torch._C._is_cow_tensor(cuda) and torch.equal((cuda + 1).cpu(), expected + 1) and torch._C._is_cow_tensor(cuda)
    tensor.add_(5)
    assert torch.equal(cuda.cpu(), expected) and torch.equal(tensor.cpu(), expected + 5)
    shared = tensor.to("cuda")
    address = _C.peek_address(tensor)
    shared.mul_(3)
    assert not torch._C._is_cow_tensor(shared) and shared.data_ptr() != address
    assert torch.equal(tensor.cpu(), expected + 5) and torch.equal(shared.cpu(), (expected + 5) * 3)
    again = tensor.cuda()
    twice = tensor.cuda()
    again.zero_()
    assert torch.equal(twice.cpu(), expected + 5) and torch.equal(tensor.cpu(), expected + 5)


def test_cuda_takes_the_memory_over(xla) -> None:
    tensor = torch.arange(5000.0, device=xla) + 1
    cuda = tensor.cuda()
    address = _C.peek_address(tensor)
    del tensor
    torch_xla.sync(wait=True)
    gc.collect()
    for _ in range(20):
        torch.randn(5000, device=xla).sum().item()
    cuda.add_(1)
    assert torch.equal(cuda.cpu(), torch.arange(5000.0) + 2)
    assert cuda.data_ptr() in (address, cuda.data_ptr())
    before = thalweg.memory_info()["live"]
    del cuda
    gc.collect()
    torch.cuda.synchronize()
    torch_xla.sync(wait=True)
    assert thalweg.memory_info()["live"] <= before


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (2, 1, 0)], ids=str)
def test_strides_stay(xla, order: tuple[int, ...]) -> None:
    host = torch.randn(3, 4, 5).permute(order)
    for tensor in (host.to(xla), host.cuda()):
        assert tensor.stride() == host.stride()
    cuda = host.to(xla).cuda()
    assert cuda.stride() == host.stride() and torch.equal(cuda.cpu(), host)
    back = cuda.to(xla)
    assert back.stride() == host.stride() and torch.equal(back.cpu(), host)
    part = host.to(xla)[1:, ::2]
    assert torch.equal(part.cuda().cpu(), host[1:, ::2]) and torch.equal(host.cuda()[1:, ::2].to(xla).cpu(), host[1:, ::2])


@pytest.mark.parametrize("on", ["0", "1"])
def test_from_cuda(xla, monkeypatch: pytest.MonkeyPatch, on: str) -> None:
    monkeypatch.setenv("ZERO_COPY_ENABLED", on)
    for host in (torch.randn(()), torch.randn(7, 9), torch.randn(2, 3, 4).permute(2, 0, 1), sample(torch.bfloat16, (5, 5)), sample(torch.float8_e5m2, (3,))):
        cuda = host.cuda()
        address = cuda.data_ptr()
        tensor = cuda.to(xla)
        assert (_C.peek_address(tensor) == address) == (on == "1")
        assert tensor.stride() == host.stride() and torch.equal(bits(tensor), bits(host))
        if host.dtype == torch.float32:
            cuda.add_(1)
            assert torch.equal(tensor.cpu(), host)
            tensor.mul_(2)
            assert torch.equal(tensor.cpu(), host * 2) and torch.equal(cuda.cpu(), host + 1)


def test_copies_into_windows_and_types(xla) -> None:
    host, update = torch.zeros(4, 6), torch.randn(4, 3, dtype=torch.float64)
    tensor = host.to(xla)
    tensor[:, 1:4] = update.cuda()
    cuda = torch.zeros(6, 4, device=CUDA)
    cuda.t().copy_(tensor)
    host[:, 1:4] = update
    assert torch.equal(tensor.cpu(), host) and torch.equal(cuda.cpu(), host.t())
    assert torch.equal(tensor.to("cuda", torch.float64).cpu(), host.double())


def test_order_without_waiting(xla) -> None:
    """Long work queued on either side is seen by the other, on PyTorch's default stream and on another."""
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            a = torch.randn(2000, 2000, device=CUDA)
            product = a
            for _ in range(20):
                product = (product @ a) / 50
            ours = product.to(xla)
            for _ in range(20):
                ours = (ours @ a.to(xla)) / 50
            theirs = ours.cuda() * 2
            expected = product
            for _ in range(20):
                expected = (expected @ a) / 50
            torch.testing.assert_close(theirs, expected * 2, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (3, 4)], ids=str)
def test_dlpack_aliases(xla, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    host = sample(dtype, shape)
    tensor = host.to(xla)
    shared = torch.from_dlpack(tensor)
    assert shared.device == CUDA and shared.data_ptr() == tensor.data_ptr() and torch.equal(bits(shared), bits(host))
    cuda = host.cuda()
    for ours in (dlpack.from_dlpack(cuda), dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(cuda))):
        assert ours.is_xla and ours.dtype == dtype and ours.data_ptr() == cuda.data_ptr() and torch.equal(bits(ours), bits(host))


def test_dlpack_writes_are_seen(xla) -> None:
    tensor = torch.zeros(1 << 20, device=xla)
    shared = torch.from_dlpack(tensor)
    for i in range(20):
        tensor += 1
        torch_xla.sync()
        shared.mul_(2)
        tensor.add_(i)
    expected = 0.0
    for i in range(20):
        expected = (expected + 1) * 2 + i
    assert torch.equal(shared.cpu(), torch.full((1 << 20,), expected)) and torch.equal(tensor.cpu(), shared.cpu())
    cuda = torch.arange(12.0, device=CUDA).reshape(3, 4).t()
    ours = dlpack.from_dlpack(cuda)
    assert ours.stride() == (1, 4)
    ours[1:].zero_()
    torch_xla.sync()
    cuda[0] += 1
    assert ours.cpu().tolist() == cuda.cpu().tolist() == [[1, 5, 9], [0, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_dlpack_lifetime(xla) -> None:
    shared = torch.from_dlpack(torch.arange(100000.0, device=xla) + 1)
    gc.collect()
    for _ in range(10):
        torch.randn(100000, device=xla).sum().item()
    assert shared.sum(dtype=torch.float64).item() == 5000050000
    with pytest.raises(BufferError, match="GPU 0"):
        dlpack.from_dlpack(torch.zeros(3))


def test_gradients_flow_across(xla) -> None:
    start = torch.randn(4, 4)
    weights = {device: start.clone().to(device).requires_grad_() for device in ("cpu", "cuda", xla)}
    loss = {}
    for device, weight in weights.items():
        inner = (weight * 2).to(xla if device == "cuda" else "cuda" if device != "cpu" else "cpu").tanh()
        loss[device] = inner.to(weight.device).sum()
        loss[device].backward()
    for device in ("cuda", xla):
        torch.testing.assert_close(loss[device].cpu(), loss["cpu"])
        torch.testing.assert_close(weights[device].grad.cpu(), weights["cpu"].grad)


def test_modules_move_both_ways(xla) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8))
    first = module[0].weight
    batch = torch.randn(16, 8)
    expected = module.eval()(batch)
    for device in (xla, "cuda", xla, "cuda"):
        module.to(device)
        assert module[0].weight is first and first.device.type == torch.device(device).type
        torch.testing.assert_close(module(batch.to(device)).cpu(), expected, rtol=1e-4, atol=1e-5)


OPERATIONS: list[Callable[[torch.Tensor], object]] = [
    lambda t: torch.nonzero(t > 0),
    lambda t: torch.linalg.svdvals(t),
    lambda t: torch.unique((t * 2).round()),
    lambda t: torch.linalg.det(t),
    lambda t: t.clone().index_fill_(0, torch.tensor([0, 2], device=t.device), 3.0),
    lambda t: torch.histc(t, 8),
    lambda t: t[t > 0],
    lambda t: torch.fft.fft(t).abs(),
    lambda t: torch.kthvalue(t, 2, dim=1),
    lambda t: t.clone().t().masked_scatter_(t.t() > 0, torch.ones_like(t)),
    lambda t: torch.bincount((t.abs() * 3).long().flatten()),
]


@pytest.mark.parametrize("number", range(len(OPERATIONS)))
def test_fallbacks_run_on_cuda(xla, number: int) -> None:
    host = torch.randn(6, 6)
    run = OPERATIONS[number]
    tensor = host.to(xla) * 1
    results, expected = run(tensor), run(host.cuda())
    flat = lambda value: value if isinstance(value, tuple) else (value,)  # noqa: E731
    for result, wanted in zip(flat(results), flat(expected), strict=True):
        assert result.is_xla
        torch.testing.assert_close(result.cpu(), wanted.cpu(), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close((result * 2).cpu(), (wanted * 2).cpu(), rtol=1e-5, atol=1e-5)


def test_fallbacks_in_place_and_views(xla) -> None:
    host = torch.randn(8, 8)
    tensor = host.to(xla)
    view = tensor[2:6]
    kept = tensor.clone()
    pending = tensor * 3
    for target in (host[2:6], view):
        target.index_fill_(1, torch.tensor([1, 3], device=target.device), -1.0)
        torch.linalg.qr(target)
        target.geometric_(0.5) if target.device.type == "xla" else None
    assert torch.equal(tensor.cpu()[:2], host[:2]) and torch.equal(tensor.cpu()[6:], host[6:])
    assert (view >= 1).all().item()
    torch.testing.assert_close(pending.cpu(), kept.cpu() * 3)


def test_uploads(xla) -> None:
    host = torch.randn(1 << 20)
    assert torch.equal(host.to(xla).cpu(), host)
    pinned = host.pin_memory()
    tensors = [pinned.to(xla, non_blocking=True) for _ in range(8)]
    total = sum(tensors[1:], tensors[0])
    torch.testing.assert_close(total.cpu(), host * 8)
    assert host.to(xla)[5].item() == host[5].item() and "xla:0" in repr(host[:3].to(xla))


def test_data_ptr_is_on_the_gpu(xla) -> None:
    tensor = torch.arange(6.0, device=xla)
    address = tensor.data_ptr()
    tensor.mul_(2)
    torch_xla.sync(wait=True)
    assert tensor.data_ptr() == address and tensor[2:].data_ptr() == address + 8
    assert torch.equal(torch.from_dlpack(tensor).cpu(), torch.arange(6.0) * 2)


def test_threads(xla) -> None:
    """Copies and fallbacks of several threads, each on a stream of its own."""
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for i in range(30):
                    cuda = torch.full((1000,), float(number * 100 + i), device=CUDA)
                    tensor = cuda.to(xla) + 1
                    back = torch.cumsum(tensor, 0).cuda()
                    assert back[-1].item() == (number * 100 + i + 1) * 1000
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


TRAINING = """
import hashlib, torch, torch_xla
torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 8))
data, labels = torch.randn(64, 32), torch.randint(0, 8, (64,))
model.to("xla")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for _ in range(12):
    loss = torch.nn.functional.cross_entropy(model(data.to("xla")), labels.to("xla"))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
values = torch.cat([p.detach().cpu().flatten() for p in model.parameters()])
print("VALUES", hashlib.sha1(values.numpy().tobytes()).hexdigest(), loss.item())
"""


def test_modes_give_the_same_bits(run_python) -> None:
    answers = {}
    for mode in ("deterministic", "deterministic,sync", "deterministic,poison", "deterministic,race,delay=7"):
        code, out, err = run_python(TRAINING, environment={"THALWEG_DEBUG": mode, "PJRT_DEVICE": "CUDA"})
        assert code == 0, err
        assert "race" not in err.lower(), err
        answers[mode] = next(line for line in out.splitlines() if line.startswith("VALUES"))
    assert len(set(answers.values())) == 1, answers


def test_import_makes_no_context(run_python) -> None:
    text = """
import ctypes, torch, torch_xla
driver = ctypes.CDLL("libcuda.so.1")
def active():
    flags, state = ctypes.c_uint(), ctypes.c_int()
    if driver.cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(state)) != 0:
        return 0
    return state.value
before = active()
assert torch_xla.runtime.device_type() == "CUDA"
torch.ones(2, requires_grad=True).sum().backward()
print("ACTIVE", before, active())
torch.ones(2, device="xla").sum().item()
print("THEN", active())
"""
    code, out, err = run_python(text, environment={"PJRT_DEVICE": "CUDA"})
    assert code == 0, err
    assert "ACTIVE 0 0" in out and "THEN 1" in out


def test_forks_and_spawns(run_python) -> None:
    text = """
import os, torch, torch_xla
x = torch.ones(3, device="xla") + 1
assert x.sum().item() == 6
child = os.fork()
if child == 0:
    try:
        (torch.ones(3, device="xla") + 1).sum().item()
    except RuntimeError as error:
        print("CHILD", error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
assert x.sum().item() == 6
"""
    code, out, err = run_python(text, environment={"PJRT_DEVICE": "CUDA"})
    assert code == 0, err
    assert "CHILD" in out and "spawn" in out


def test_wrong_choices(run_python) -> None:
    code, _, err = run_python("import torch, torch_xla; torch.ones(1, device='xla').item()", environment={"PJRT_DEVICE": "CUDA", "CUDA_VISIBLE_DEVICES": ""})
    assert code != 0 and "PJRT_DEVICE" in err
    code, _, err = run_python("import torch_xla; torch_xla.runtime.device_type()", environment={"PJRT_DEVICE": "TPU"})
    assert code != 0 and "TPU" in err
    code, out, _ = run_python("import torch_xla; print(torch_xla.runtime.device_type())", environment={"PJRT_DEVICE": "", "CUDA_VISIBLE_DEVICES": ""})
    assert code == 0 and out.strip() == "CPU"


def test_out_of_memory_keeps_the_state(xla) -> None:
    free, _ = torch.cuda.mem_get_info()
    weight = torch.randn(1000, device=xla)
    expected = weight.cpu()
    with pytest.raises(torch.OutOfMemoryError):
        large = torch.empty(free // 2, device=xla) + weight[0]
        torch_xla.sync(wait=True)
        del large
    assert torch.equal(weight.cpu(), expected) and torch.equal((weight + 1).cpu(), expected + 1)
    assert torch.randn(1000, device=CUDA).isfinite().all().item()
