"""Saving, loading and deep copying of device tensors, so that views of one storage stay views of one storage.

The saved form is the one core uses for xla: a CPU tensor and the device's name, so files load with a plain PyTorch and `map_location="cpu"`.
"""

import contextlib
import copy
import threading
from collections.abc import Iterator
from typing import Any

import torch

_local = threading.local()


@contextlib.contextmanager
def scope() -> Iterator[None]:
    """Within one save or load, each storage is copied once."""
    outer = getattr(_local, "copies", None)
    _local.copies = {}
    try:
        yield
    finally:
        _local.copies = outer


def _copies() -> dict[int, tuple[Any, torch.Tensor]]:
    """Storage -> (itself, kept alive; its copy as a flat tensor), of the present save or load; outside of one nothing is shared."""
    copies = getattr(_local, "copies", None)
    return {} if copies is None else copies


def flat(storage: torch.UntypedStorage, dtype: torch.dtype) -> torch.Tensor:
    """The whole storage as a one-dimensional tensor of `dtype`; bytes that do not fill an element are left out."""
    count = storage.nbytes() // dtype.itemsize
    return torch.empty(0, dtype=dtype, device=storage.device).set_(storage, 0, (count,), (1,))


def _window(storage: torch.UntypedStorage, like: torch.Tensor) -> torch.Tensor:
    """A tensor on `storage` with `like`'s dtype, sizes, strides and offset."""
    return torch.empty(0, dtype=like.dtype, device=storage.device).set_(storage, like.storage_offset(), like.size(), like.stride())


def _copy(tensor: torch.Tensor, device: str) -> torch.Tensor:
    """`tensor` on `device`, over a copy of its whole storage that all tensors of that storage share in the present scope."""
    with torch.no_grad():
        source = tensor.detach().resolve_conj().resolve_neg()
        storage = source.untyped_storage()
        copies = _copies()
        if storage._cdata not in copies:
            copies[storage._cdata] = (storage, flat(storage, source.dtype).to(device))
        return _window(copies[storage._cdata][1].untyped_storage(), source)


def to_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """A CPU copy of a device tensor; within one `scope()`, tensors of one storage become tensors of one storage."""
    return _copy(tensor, "cpu") if type(tensor) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) and tensor.layout == torch.strided else tensor.cpu()


def reduce(tensor: torch.Tensor) -> tuple[Any, tuple[Any, ...]]:
    """What pickle stores for a device tensor."""
    torch.utils.hooks.warn_if_has_hooks(tensor)
    if torch.serialization._serialization_tls.skip_data:
        raise RuntimeError("tensors on device xla can't be saved under skip_data; move them to the CPU or to meta first")
    arguments = (_copy(tensor, "cpu"), tensor.dtype, str(tensor.device), tensor.requires_grad)
    return (torch._utils._rebuild_device_tensor_from_cpu_tensor, arguments)


def rebuild(data: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    """The device tensor that was saved as CPU tensor `data`."""
    tensor = _copy(data, "xla")
    tensor.requires_grad = requires_grad
    return tensor


def deepcopy(tensor: torch.Tensor, memo: dict[Any, Any]) -> torch.Tensor:
    """What `copy.deepcopy` makes of a plain leaf tensor: as on the CPU, storages are copied once for each `memo`."""
    if id(tensor) in memo:
        return memo[id(tensor)]
    with torch.no_grad():
        source = tensor.detach()
        storage = source.untyped_storage()
        copies = memo.setdefault("thalweg", {})
        if storage._cdata not in copies:
            copies[storage._cdata] = (storage, flat(storage, source.dtype).clone())
        copied = _window(copies[storage._cdata][1].untyped_storage(), source)
        if source.is_conj():
            copied = copied.conj_physical()
        if source.is_neg():
            copied = copied.neg()
        copied.requires_grad_(tensor.requires_grad)
        if tensor.grad is not None:
            copied.grad = tensor.grad.__deepcopy__(memo)
    copied.__dict__ = copy.deepcopy(tensor.__dict__, memo)
    memo[id(tensor)] = copied
    return copied
