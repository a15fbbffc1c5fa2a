"""Views, in-place writes and storages: random programs against the CPU, and the named cases that other lazy devices get wrong."""

import dataclasses
from collections.abc import Callable

import hypothesis
import hypothesis.strategies as st
import pytest
import torch
import torch_xla
from programs import assert_same

Pair = tuple[torch.Tensor, torch.Tensor]  # (the CPU's, the device's)


@dataclasses.dataclass
class Choice:
    """Draws the program; the same draws serve both devices."""

    data: st.DataObject

    def integer(self, low: int, high: int) -> int:
        return self.data.draw(st.integers(low, high))

    def pick(self, items: list):
        return items[self.integer(0, len(items) - 1)]


# Each operation: given the choice and a tensor's sizes, a function to be applied on both devices, or None when it does not fit.
Operation = Callable[[Choice, torch.Tensor], Callable[[torch.Tensor], torch.Tensor] | None]


def _dim(choice: Choice, x: torch.Tensor) -> int:
    return choice.integer(0, x.dim() - 1)


def _view_select(choice: Choice, x: torch.Tensor):
    if not x.dim():
        return None
    dim = _dim(choice, x)
    index = choice.integer(0, max(x.size(dim) - 1, 0))
    return (lambda y: y.select(dim, index)) if x.size(dim) else None


def _view_slice(choice: Choice, x: torch.Tensor):
    if not x.dim():
        return None
    dim = _dim(choice, x)
    start, length, step = choice.integer(0, x.size(dim)), choice.integer(0, x.size(dim)), choice.integer(1, 3)
    return lambda y: y[(slice(None),) * dim + (slice(start, start + length, step),)]


def _view_transpose(choice: Choice, x: torch.Tensor):
    if x.dim() < 2:
        return None
    a, b = _dim(choice, x), _dim(choice, x)
    return lambda y: y.transpose(a, b)


def _view_reshape(choice: Choice, x: torch.Tensor):
    if not x.numel():
        return None
    count = x.numel()
    first = choice.pick([d for d in range(1, count + 1) if count % d == 0])
    return lambda y: y.reshape(first, count // first)


def _view_expand(choice: Choice, x: torch.Tensor):
    count = choice.integer(1, 3)
    return (lambda y: y.unsqueeze(0).expand(count, *y.shape)) if x.dim() < 4 else None


def _view_as_strided(choice: Choice, x: torch.Tensor):
    room = x.untyped_storage().nbytes() // x.element_size()
    sizes, strides, offset = [choice.integer(0, 3), choice.integer(1, 3)], [choice.integer(0, 4), choice.integer(0, 3)], choice.integer(0, 3)
    reach = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)) if all(sizes) else offset
    return (lambda y: y.as_strided(sizes, strides, offset)) if reach < room else None


def _view_diagonal(choice: Choice, x: torch.Tensor):
    return (lambda y: y.diagonal(dim1=0, dim2=-1)) if x.dim() >= 2 else None


def _view_plain(choice: Choice, x: torch.Tensor):
    return choice.pick([lambda y: y.unsqueeze(-1), lambda y: y.squeeze(), lambda y: y.detach(), lambda y: y.view_as(y), lambda y: y.t() if y.dim() == 2 else y])


VIEWS: list[Operation] = [_view_select, _view_slice, _view_transpose, _view_reshape, _view_expand, _view_as_strided, _view_diagonal, _view_plain]


def _write_scalar(choice: Choice, x: torch.Tensor):
    value = choice.integer(-3, 3)
    return choice.pick(
        [
            lambda y: y.add_(value),
            lambda y: y.mul_(value),
            lambda y: y.fill_(value),
            lambda y: y.zero_(),
            lambda y: y.clamp_(-2, 2),
            lambda y: y.masked_fill_(y > value, 1),
            lambda y: y.neg_(),
        ]
    )


def _write_item(choice: Choice, x: torch.Tensor):
    if not x.dim() or not x.size(0):
        return None
    index, value = choice.integer(0, x.size(0) - 1), choice.integer(-3, 3)

    def write(y: torch.Tensor) -> torch.Tensor:
        y[index] = value
        return y

    return write


def _write_self(choice: Choice, x: torch.Tensor):
    return choice.pick([lambda y: y.add_(y), lambda y: y.copy_(y.flip(0)) if y.dim() else y, lambda y: y.sub_(y.sum()), lambda y: y.copy_(y * 2)])


WRITES: list[Operation] = [_write_scalar, _write_item, _write_self]


def _compute(choice: Choice, x: torch.Tensor):
    small = [lambda y: y + 1, lambda y: y * y, lambda y: torch.tanh(y), lambda y: y.clone(), lambda y: y.contiguous(), lambda y: torch.where(y > 0, y, -y)]
    shaped = [lambda y: y.sum(0) if y.dim() else y + 0, lambda y: torch.cat([y, y]) if y.dim() else y * 1, lambda y: y.flip(0) if y.dim() else y.clone()]
    return choice.pick(small + shaped)


def _run(pair: Pair, function: Callable[[torch.Tensor], torch.Tensor]) -> Pair | None:
    """Applies on both devices; when the CPU refuses, so must the device, and nothing changes."""
    try:
        expected = function(pair[0])
    except (RuntimeError, IndexError, ValueError) as error:
        with pytest.raises((RuntimeError, IndexError, ValueError)):
            function(pair[1])
        hypothesis.event(f"refused: {str(error)[:40]}")
        return None
    return expected, function(pair[1])


def _start(choice: Choice) -> Pair:
    shape = choice.pick([(6,), (3, 4), (2, 3, 2), (1,), (4, 1), (0, 3), ()])
    host = torch.arange(int(torch.tensor(shape).prod()) if shape else 1, dtype=torch.float32).reshape(shape) / 4 - 1
    return host.clone(), host.to("xla")


def _compare_all(pairs: list[Pair], choice: Choice) -> None:
    for expected, actual in pairs:
        assert_same(actual, expected, rtol=1e-4, atol=1e-5)
        assert actual.storage_offset() == expected.storage_offset()


@hypothesis.settings(max_examples=120)
@hypothesis.given(st.data())
def test_random_programs_of_views_writes_and_flushes(data: st.DataObject) -> None:
    choice = Choice(data)
    pairs = [_start(choice), _start(choice)]
    for _ in range(choice.integer(3, 18)):
        kind = choice.integer(0, 9)
        pair = choice.pick(pairs)
        if kind == 0:
            torch_xla.sync()
        elif kind == 1:
            assert_same(pair[1], pair[0], rtol=1e-4, atol=1e-5)
        elif kind == 2:
            other = choice.pick(pairs)
            _run_two(pair, other, choice)
        else:
            operation = choice.pick(VIEWS if kind <= 5 else WRITES if kind <= 8 else [_compute])
            function = operation(choice, pair[0])
            result = _run(pair, function) if function else None
            if result is not None:
                pairs.append(result)
    _compare_all(pairs, choice)


def _run_two(target: Pair, source: Pair, choice: Choice) -> None:
    """An operation that reads one tensor and writes another, which may share their storage."""
    writes = [lambda a, b: a.copy_(b), lambda a, b: a.add_(b), lambda a, b: torch.mul(b, 2, out=a) if a.shape == b.shape else a.mul_(b)]
    write = choice.pick(writes)
    # Partly overlapping operands are undefined on the CPU too.
    if target[0].untyped_storage()._cdata == source[0].untyped_storage()._cdata:
        copies = source[0].clone(), source[1].clone()
        _run_pairwise(target, copies, write)
    else:
        _run_pairwise(target, source, write)


def _run_pairwise(target: Pair, source: Pair, write: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
    try:
        write(target[0], source[0])
    except (RuntimeError, IndexError, ValueError):
        with pytest.raises((RuntimeError, IndexError, ValueError)):
            write(target[1], source[1])
        return
    write(target[1], source[1])


def _differentiable(choice: Choice, x: torch.Tensor):
    return choice.pick(
        [
            lambda y: y * 2,
            lambda y: torch.tanh(y),
            lambda y: y * y.sum(),
            lambda y: y.clone(),
            lambda y: torch.relu(y),
            lambda y: torch.softmax(y, -1) if y.dim() else y.sigmoid(),
            lambda y: (y @ y.t()) if y.dim() == 2 else y + 1,
        ]
    )


@hypothesis.settings(max_examples=60)
@hypothesis.given(st.data())
def test_random_programs_with_autograd(data: st.DataObject) -> None:
    choice = Choice(data)
    leaf = _start(choice)
    leaf[0].requires_grad_()
    leaf[1].requires_grad_()
    pairs: list[Pair] = [(leaf[0] * 1, leaf[1] * 1)]
    for _ in range(choice.integer(1, 8)):
        pair = choice.pick(pairs)
        kind = choice.integer(0, 4)
        if kind == 0:
            torch_xla.sync()
            continue
        operation = {1: _write_scalar, 2: choice.pick(VIEWS)}.get(kind, _differentiable)
        function = operation(choice, pair[0])
        result = _run(pair, function) if function else None
        if result is not None:
            pairs.append(result)
    _backward(leaf, pairs)


def _backward(leaf: Pair, pairs: list[Pair]) -> None:
    def total(index: int) -> torch.Tensor:
        return sum(pair[index].square().sum() for pair in pairs)

    expected = total(0)
    if not expected.isfinite() or expected > 1e8:
        return
    try:
        expected.backward()
    except RuntimeError:
        with pytest.raises(RuntimeError):
            total(1).backward()
        return
    total(1).backward()
    scale = max(leaf[0].grad.abs().max().item(), 1.0) if leaf[0].grad is not None and leaf[0].numel() else 1.0
    for expected_pair, actual in pairs:
        assert_same(actual, expected_pair, rtol=1e-3, atol=1e-4 * scale)
    if leaf[0].grad is not None:
        assert_same(leaf[1].grad, leaf[0].grad, rtol=1e-3, atol=1e-4 * scale)


def test_as_strided_writes_the_base(xla) -> None:
    t = torch.arange(6.0, device=xla)
    t.as_strided((2,), (2,))[0] = -1
    assert t.tolist() == [-1, 1, 2, 3, 4, 5]


def test_chunk_and_squeeze(xla) -> None:
    t = torch.arange(6.0, device=xla).reshape(2, 3)
    first, second = (part.squeeze(0) for part in t.chunk(2))
    second.add_(first)
    assert t.tolist() == [[0, 1, 2], [3, 5, 7]] and second.tolist() == [3, 5, 7]


def test_scalar_that_is_written_does_not_change_others(xla) -> None:
    first = torch.tensor(42, device=xla)
    torch_xla.sync()
    first.add_(1)
    torch_xla.sync()
    first.add_(1)
    torch_xla.sync()
    assert first.item() == 44 and torch.tensor(42, device=xla).item() == 42


def test_a_cached_program_does_not_donate_what_is_still_used(xla) -> None:
    t0, t1 = torch.tensor([1.0], device=xla), torch.tensor([2.0], device=xla)
    torch_xla.sync()
    t1.add_(t0)
    torch_xla.sync()
    t2 = t1 + t0
    torch_xla.sync()
    assert t1.item() == 3 and t2.item() == 4


def test_set_and_data(xla) -> None:
    a, b = torch.zeros(3, device=xla), torch.ones(3, device=xla)
    a.set_(b)
    b.add_(1)
    assert a.tolist() == [2, 2, 2]
    parameter = torch.nn.Parameter(torch.zeros(2, device=xla))
    parameter.data = torch.ones(2, device=xla)
    parameter.data.mul_(3)
    assert parameter.tolist() == [3, 3]
    flat = torch.zeros(4, device=xla)
    views = [torch.nn.Parameter(flat[:2]), torch.nn.Parameter(flat[2:])]
    with torch.no_grad():
        views[1].fill_(5)
    assert flat.tolist() == [0, 0, 5, 5]


def test_set_from_a_storage_of_bytes(xla) -> None:
    source = torch.arange(4.0, device=xla)
    window = torch.empty(0, dtype=torch.float32, device=xla).set_(source.untyped_storage(), 1, (2,), (2,))
    assert window.tolist() == [1, 3]
    window.fill_(9)
    assert source.tolist() == [0, 9, 2, 9]
    as_bytes = torch.empty(0, dtype=torch.uint8, device=xla).set_(source.untyped_storage(), 0, (16,), (1,))
    copied = as_bytes.clone().untyped_storage()
    assert torch.empty(0, device=xla).set_(copied, 0, (4,), (1,)).tolist() == [0, 9, 2, 9]


def test_resize_keeps_elements(xla) -> None:
    t = torch.arange(4.0, device=xla)
    t.resize_(2, 3)
    assert t.flatten()[:4].tolist() == [0, 1, 2, 3]
    t.resize_(2)
    assert t.tolist() == [0, 1]
    t.untyped_storage().resize_(0)
    assert t.untyped_storage().nbytes() == 0


def test_out_may_be_a_view(xla) -> None:
    base = torch.zeros(2, 4, device=xla)
    torch.add(torch.ones(2, device=xla), 1, out=base[:, 1])
    assert base.tolist() == [[0, 2, 0, 0]] * 2


def test_version_counters(xla) -> None:
    x = torch.ones(3, device=xla, requires_grad=True)
    y = x * 1
    z = y.exp()
    z.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_storage_identity(xla) -> None:
    from torch_xla import _XLAC

    a = torch.zeros(4, device=xla)
    assert _XLAC._xla_get_tensor_id(a) == _XLAC._xla_get_tensor_id(a.detach())
    assert _XLAC._xla_get_tensor_id(a) != _XLAC._xla_get_tensor_id(torch.zeros(4, device=xla))


def test_gradient_bucket_views(xla) -> None:
    """What distributed data parallel does: gradients are windows of one flat buffer."""
    parameters = [torch.nn.Parameter(torch.randn(2, 3, device=xla)), torch.nn.Parameter(torch.randn(4, device=xla))]
    bucket = torch.zeros(10, device=xla)
    parameters[0].grad, parameters[1].grad = bucket[:6].view(2, 3), bucket[6:]
    (parameters[0].sum() * 2 + parameters[1].sum() * 3).backward()
    assert bucket.tolist() == [2.0] * 6 + [3.0] * 4
