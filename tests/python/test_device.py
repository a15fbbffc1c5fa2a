"""What a PyTorch device must do: the things that scripts use without thinking of the device."""

import copy
import io
import os
import pickle

import pytest
import torch
import torch_xla
import torchvision
from programs import assert_same, watch
from thalweg import _C


def both(function, *tensors: torch.Tensor, **tolerance: float) -> None:
    """Compares `function` of the tensors on the device with the CPU's."""
    expected = function(*(tensor.clone() for tensor in tensors))
    actual = function(*(tensor.to("xla") for tensor in tensors))
    flat_expected, flat_actual = torch.utils._pytree.tree_leaves(expected), torch.utils._pytree.tree_leaves(actual)
    assert len(flat_expected) == len(flat_actual)
    for theirs, mine in zip(flat_expected, flat_actual, strict=True):
        if isinstance(theirs, torch.Tensor):
            assert_same(mine, theirs, **{"rtol": 1e-4, "atol": 1e-5, **tolerance})
        else:
            assert mine == theirs


def test_module_to_keeps_parameters(xla) -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    before = list(model.parameters())
    model.to(xla)
    assert all(old is new for old, new in zip(before, model.parameters(), strict=True))
    weight = model.weight.detach().cpu()
    model(torch.ones(1, 3, device=xla)).sum().backward()
    optimizer.step()
    torch.testing.assert_close(model.weight.detach().cpu(), weight - 1)


def test_module_to_dtype(xla) -> None:
    model = torch.nn.Linear(3, 2).to(xla).to(torch.bfloat16)
    assert model(torch.randn(4, 3, device=xla, dtype=torch.bfloat16)).cpu().dtype == torch.bfloat16


VIEWS = {
    "t": lambda x: x.t(),
    "transpose": lambda x: x.view(4, 3, 2).transpose(0, 2),
    "permute": lambda x: x.view(4, 3, 2).permute(2, 0, 1),
    "select": lambda x: x.select(1, 2),
    "slice": lambda x: x[1:, ::2],
    "expand": lambda x: x[:, :1].expand(4, 5),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "chunk": lambda x: x.chunk(2),
    "split": lambda x: x.split([1, 2, 3], dim=1),
    "unbind": lambda x: x.unbind(),
    "data": lambda x: x.data,
    "diagonal": lambda x: x.diagonal(1),
    "unfold": lambda x: x.unfold(1, 3, 2),
    "as_strided": lambda x: x.as_strided((3, 2), (2, 5), 1),
    "view_dtype": lambda x: x.view(torch.int32),
    "real": lambda x: torch.view_as_complex(x.view(4, 3, 2)).real,
}


@pytest.mark.parametrize("name", VIEWS)
def test_view(xla, name: str) -> None:
    both(VIEWS[name], torch.randn(4, 6))


@pytest.mark.parametrize("name", [name for name in VIEWS if name not in ("expand", "unfold", "view_dtype", "chunk", "split", "unbind")])
def test_write_through_view(xla, name: str) -> None:
    def write(x: torch.Tensor) -> torch.Tensor:
        VIEWS[name](x).mul_(2).add_(1)
        return x

    both(write, torch.randn(4, 6))


def test_memory_formats(xla) -> None:
    made = torch.empty(2, 3, 4, 5, device=xla, memory_format=torch.channels_last)
    assert made.stride() == torch.empty(2, 3, 4, 5, memory_format=torch.channels_last).stride()
    both(lambda x: x.to(memory_format=torch.channels_last) * 2, torch.randn(2, 3, 4, 5))
    both(lambda x: torch.relu(x.to(memory_format=torch.channels_last)).contiguous(), torch.randn(2, 3, 4, 5))
    strided = torch.empty_strided((2, 3), (1, 2), device=xla)
    assert strided.stride() == (1, 2)


def test_factories_and_out(xla) -> None:
    for function in (
        lambda device: torch.arange(7, device=device),
        lambda device: torch.eye(3, device=device),
        lambda device: torch.linspace(0, 1, 5, device=device),
        lambda device: torch.full((2, 2), 3, device=device),
        lambda device: torch.tensor([[1, 2], [3, 4]], device=device),
        lambda device: torch.tril_indices(3, 3, device=device),
        lambda device: torch.add(torch.ones(3, device=device), 2, out=torch.empty(0, device=device)),
        lambda device: torch.empty(0, device=device).resize_(2, 3).fill_(1),
        lambda device: torch.zeros(2, device=device).new_ones(3),
    ):
        assert_same(function("xla"), function("cpu"))


def test_convolution_and_norm_backward(xla) -> None:
    def step(x: torch.Tensor, weight: torch.Tensor) -> list[torch.Tensor]:
        x, weight = x.requires_grad_(), weight.requires_grad_()
        y = torch.nn.functional.conv2d(x, weight, stride=2, padding=1)
        y = torch.nn.functional.batch_norm(y, None, None, training=True)
        y = torch.nn.functional.max_pool2d(torch.relu(y), 2)
        (y * y).sum().backward()
        return [y.detach(), x.grad, weight.grad]

    both(step, torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3), rtol=1e-3, atol=1e-4)


FALLBACKS = {
    "svd": (lambda x: torch.linalg.svd(x @ x.t())[1], (5, 5)),
    "fft": (lambda x: torch.fft.fft(x).abs(), (4, 6)),
    "quantile": (lambda x: torch.quantile(x, 0.3, dim=1), (4, 6)),
    "mask": (lambda x: x[x > 0], (4, 6)),
    "nonzero": (lambda x: torch.nonzero(x > 0), (4, 6)),
    "index_put": (lambda x: x.index_put_((torch.tensor([0, 2], device=x.device),), x[1].clone(), accumulate=True), (4, 6)),
    "unique": (lambda x: torch.unique(x.round(), return_counts=True), (4, 6)),
    "cumsum": (lambda x: x.cumsum(1), (4, 6)),
    "sort": (lambda x: x.sort(dim=1, stable=True), (4, 6)),
    "topk": (lambda x: x.topk(3), (4, 6)),
    "cdist": (lambda x: torch.cdist(x, x + 1), (4, 6)),
    "grid_sample": (lambda x: torch.nn.functional.grid_sample(x[None, None], x[None, :, :2, None].tanh().permute(0, 1, 3, 2), align_corners=False), (4, 6)),
    "interpolate": (lambda x: torch.nn.functional.interpolate(x[None, None], scale_factor=2, mode="bicubic"), (4, 6)),
    "einsum": (lambda x: torch.einsum("ij,kj->ik", x, x), (4, 6)),
    "bincount": (lambda x: torch.bincount((x.abs() * 3).long().flatten()), (4, 6)),
    "cummax": (lambda x: torch.cummax(x, 1), (4, 6)),
    "two_lists": (lambda x: torch._foreach_add(list(x.unbind()), list((x * 2).unbind())), (4, 6)),
    "multi_head": (lambda x: torch.nn.functional.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]), (4, 6)),
}


@pytest.mark.parametrize("name", FALLBACKS)
def test_any_operation(xla, name: str) -> None:
    function, shape = FALLBACKS[name]
    both(function, torch.randn(shape))


def test_fallbacks_are_counted_with_their_line(xla) -> None:
    from torch_xla.debug import metrics

    metrics.clear_all()
    torch.linalg.svdvals(torch.randn(3, 3, device=xla)).cpu()
    assert any("svd" in name for name in metrics.executed_fallback_ops())
    lines = [line for name, found in metrics.fallback_lines().items() if "svd" in name for line, _ in found]
    assert any("test_device.py" in line for line in lines)


def test_vmap(xla) -> None:
    both(lambda a, b: torch.func.vmap(torch.dot)(a, b), torch.randn(3, 4), torch.randn(3, 4))


def test_forward_mode(xla) -> None:
    both(lambda x, v: torch.func.jvp(lambda y: (y.sin() * y).sum(), (x,), (v,)), torch.randn(4), torch.randn(4))


def test_functional_grad_and_hessian(xla) -> None:
    both(lambda x: torch.func.grad(lambda y: (y.exp() * y).sum())(x), torch.randn(4))
    both(lambda x: torch.func.hessian(lambda y: (y**3).sum())(x), torch.randn(3))


def test_double_backward(xla) -> None:
    def second(x: torch.Tensor) -> torch.Tensor:
        x = x.requires_grad_()
        (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        return torch.autograd.grad(first.sum(), x)[0]

    both(second, torch.randn(5))


def test_custom_autograd_function(xla) -> None:
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            return grad * 3 * ctx.saved_tensors[0] ** 2

    def run(x: torch.Tensor) -> torch.Tensor:
        x = x.requires_grad_()
        Cube.apply(x).sum().backward()
        return x.grad

    both(run, torch.randn(5))


def test_lstm(xla) -> None:
    model = torch.nn.LSTM(4, 5, num_layers=2, batch_first=True)
    moved = copy.deepcopy(model).to(xla)
    x = torch.randn(2, 3, 4)
    expected, actual = model(x)[0], moved(x.to(xla))[0]
    assert_same(actual, expected)
    expected.sum().backward()
    actual.sum().backward()
    for theirs, mine in zip(model.parameters(), moved.parameters(), strict=True):
        assert_same(mine.grad, theirs.grad, rtol=1e-4, atol=1e-5)


def test_nms(xla) -> None:
    corners = torch.rand(10, 2) * 10
    both(lambda boxes, scores: torchvision.ops.nms(boxes, scores, 0.5), torch.cat([corners, corners + torch.rand(10, 2) * 5], 1), torch.rand(10))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "openxla"])
def test_compile(xla, backend: str) -> None:
    torch._dynamo.reset()
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))
    moved = copy.deepcopy(model).to(xla)
    x = torch.randn(3, 4)
    actual = torch.compile(moved, backend=backend)(x.to(xla))
    expected = model(x)
    assert_same(actual, expected, atol=1e-5)
    actual.sum().backward()
    expected.sum().backward()
    for theirs, mine in zip(model.parameters(), moved.parameters(), strict=True):
        assert_same(mine.grad, theirs.grad, atol=1e-5)


def test_attention_module(xla) -> None:
    layer = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    moved = copy.deepcopy(layer).to(xla)
    x = torch.randn(2, 5, 8)
    for needed in (True, False):
        expected, actual = layer(x, x, x, need_weights=needed), moved(x.to(xla), x.to(xla), x.to(xla), need_weights=needed)
        assert_same(actual[0], expected[0])


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_activation_checkpoint(xla, use_reentrant: bool) -> None:
    layer = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.Tanh()).to(xla)
    x = torch.randn(8, 4, device=xla, requires_grad=True)
    torch.manual_seed(1)
    layer(x).sum().backward()
    expected, x.grad = x.grad.cpu(), None
    torch.manual_seed(1)
    torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=use_reentrant).sum().backward()
    torch.testing.assert_close(x.grad.cpu(), expected)


def test_pickle_print_and_format(xla) -> None:
    tensor = torch.arange(4.0, device=xla)
    assert pickle.loads(pickle.dumps(tensor)).tolist() == [0, 1, 2, 3]
    assert "[0., 1., 2., 3.]" in repr(tensor) and "xla:0" in repr(tensor)
    assert f"{tensor[1]:.2f}" == "1.00"
    assert list(tensor) == [0, 1, 2, 3] and bool(tensor[0]) is False and int(tensor.sum()) == 6


def test_copies_between_devices(xla) -> None:
    source = torch.randn(3, 4)
    moved = source.to(xla)
    source.zero_()
    assert moved.abs().sum().item() > 0  # .to() copies
    back = moved.cpu()
    back.zero_()
    assert moved.abs().sum().item() > 0
    target = torch.zeros(4, 3, device=xla)
    target.t().copy_(torch.ones(3, 4))
    assert target.tolist() == [[1.0] * 3] * 4
    host = torch.zeros(3, 4)
    host.copy_(moved, non_blocking=True)
    torch.testing.assert_close(host, moved.cpu())
    assert torch.tensor(2.5).to(xla).item() == 2.5
    assert moved.to(torch.float64).cpu().dtype == torch.float64
    assert moved.numpy(force=True).shape == (3, 4)
    with pytest.raises(TypeError, match="numpy"):
        moved.numpy()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool])
def test_dtypes(xla, dtype: torch.dtype) -> None:
    a, b = (torch.randint(0, 5, (3, 4)).to(dtype) for _ in range(2))
    both(lambda x, y: x == y, a, b)
    both(lambda x, y: torch.where(x > y, x, y), a, b)
    if dtype != torch.bool:
        both(lambda x, y: x + y * 2, a, b)
        both(lambda x: x.sum(), a)
    both(lambda x: x.to(torch.float32), a)


def test_type_promotion(xla) -> None:
    both(lambda x, y: x + y, torch.arange(3), torch.randn(3))
    both(lambda x: x + 1.5, torch.arange(3))
    both(lambda x: x**2.0, torch.arange(3))
    both(lambda x: x * torch.tensor(2.0, dtype=torch.float64), torch.randn(3))
    both(lambda x, y: x / y, torch.arange(3), torch.arange(1, 4))
    both(lambda x: x // 2, torch.arange(-3, 3))


def test_cpu_scalars_join(xla) -> None:
    assert_same(torch.ones(3, device=xla) * torch.tensor(2.0), torch.ones(3) * 2)
    assert_same(torch.where(torch.ones(2, device=xla) > 0, torch.tensor(1.0), torch.tensor(0.0)), torch.ones(2))


def test_complex(xla) -> None:
    both(lambda x: torch.complex(x, x + 1) * 2, torch.randn(3))


def test_backward_before_any_device_tensor(run_python) -> None:
    code, _, errors = run_python("import torch, torch_xla; x = torch.ones(2, requires_grad=True); x.sum().backward(); print(x.grad)")
    assert code == 0, errors


def test_hooks_and_retain_graph(xla) -> None:
    x = torch.randn(3, device=xla, requires_grad=True)
    seen = []
    x.register_hook(lambda grad: seen.append(grad) or grad * 2)
    y = (x * 3).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [12.0] * 3 and len(seen) == 2


def test_sparse_and_shared_memory_are_refused_clearly(xla) -> None:
    with pytest.raises((RuntimeError, NotImplementedError)) as caught:
        torch.eye(3, device=xla).to_sparse().to("xla")
    assert "sparse" in str(caught.value).lower()


def test_fork_after_import(xla) -> None:
    torch.ones(3, device=xla).sum().item()
    child = os.fork()
    if child == 0:
        # The child may use PyTorch's CPU device; nothing of the parent's device threads runs here.
        os._exit(0 if torch.ones(3).sum().item() == 3 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert torch.ones(3, device=xla).sum().item() == 3


def test_workers_of_a_loader(xla) -> None:
    data = torch.utils.data.TensorDataset(torch.arange(12.0))
    torch.ones(2, device=xla).sum().item()
    total = sum(batch.to(xla).sum().item() for (batch,) in torch.utils.data.DataLoader(data, batch_size=4, num_workers=2))
    assert total == 66


def test_generator(xla) -> None:
    generator = torch.Generator("xla").manual_seed(5)
    first = torch.rand(4, device=xla, generator=generator)
    again = torch.rand(4, device=xla, generator=torch.Generator("xla").manual_seed(5))
    assert first.tolist() == again.tolist()
    assert generator.initial_seed() == 5
    state = generator.get_state()
    second = torch.rand(4, device=xla, generator=generator).tolist()
    generator.set_state(state)
    assert torch.rand(4, device=xla, generator=generator).tolist() == second


def test_device_module(xla) -> None:
    assert torch.xla.is_available() and torch.xla.device_count() == 1 and torch.xla.current_device() == 0
    event, end = torch.xla.Event(enable_timing=True), torch.xla.Event(enable_timing=True)
    event.record()
    (torch.randn(64, 64, device=xla) @ torch.randn(64, 64, device=xla)).sum()
    end.record()
    end.synchronize()
    assert event.elapsed_time(end) > 0
    with torch.xla.stream(torch.xla.current_stream()), torch.xla.device(0):
        torch.xla.synchronize()
    with pytest.raises(ValueError, match="one XLA device"):
        torch.xla.set_device(3)
    assert torch.xla.memory_allocated() >= 0 and torch.xla.get_device_name() == _C.device_kind()


def test_second_device_is_refused(xla) -> None:
    with pytest.raises(Exception, match="xla"):
        torch.ones(2, device="xla:3").cpu()


def test_state_dict_round_trip(xla) -> None:
    model = torch.nn.BatchNorm2d(3).to(xla)
    model(torch.randn(2, 3, 4, 4, device=xla))
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = torch.nn.BatchNorm2d(3)
    other.load_state_dict(torch.load(file, map_location="cpu"))
    torch.testing.assert_close(other.running_mean, model.running_mean.cpu())
    assert other.num_batches_tracked.item() == 1


def test_no_fallback_for_a_common_step(xla) -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 10)).to(xla)
    optimizer = torch.optim.AdamW(model.parameters())
    with watch() as work:
        loss = torch.nn.functional.cross_entropy(model(torch.randn(4, 1, 8, 8).to(xla)), torch.randint(0, 10, (4,)).to(xla))
        loss.backward()
        optimizer.step()
        torch_xla.sync()
    assert work.fallbacks == 0 and work.launches == 1


def test_zero_tensor_of_forward_mode_has_memory() -> None:
    """torch.func.hessian makes zero tensors that have no memory on the CPU."""
    point = torch.tensor([1.0, -2.0, 3.0])
    got = torch.func.hessian(lambda v: (v**3).sum())(point.to("xla"))
    assert torch.equal(got.cpu(), torch.diag(6 * point))


def test_copies_keep_strides(xla) -> None:
    for host in (torch.randn(3, 4, 5).permute(2, 0, 1), torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), torch.randn(4, 6).t()):
        tensor = host.to(xla)
        assert tensor.stride() == host.stride() and torch.equal(tensor.cpu(), host) and tensor.cpu().stride() == host.stride()
        rounded = tensor.to(torch.bfloat16)
        assert rounded.stride() == host.stride() and torch.equal(rounded.cpu(), host.to(torch.bfloat16))
        assert host.to(xla, memory_format=torch.contiguous_format).is_contiguous()
    spread = torch.randn(6, 6)[::2, ::2]
    assert spread.to(xla).is_contiguous() and torch.equal(spread.to(xla).cpu(), spread)
