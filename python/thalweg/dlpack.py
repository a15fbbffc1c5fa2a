"""DLPack of device tensors: on the CPU their memory is host memory, exchanged without a copy."""

import ctypes
import enum
from typing import Any

import torch
from torch.utils.dlpack import DLDeviceType

from thalweg import _C


def host_view(tensor: torch.Tensor) -> torch.Tensor:
    """A CPU tensor over the same memory as `tensor` (device xla): runs what is pending and waits for it.

    From then on the storage stays at its address: what either side writes the other sees, ours when it has run. The view keeps the memory alive.
    """
    source = tensor.detach()
    if source.numel() == 0:
        return torch.empty_strided(source.size(), source.stride(), dtype=source.dtype)
    if any(stride < 0 for stride in source.stride()):
        raise BufferError("tensors with negative strides can't be shared")
    elements = 1 + sum((size - 1) * stride for size, stride in zip(source.size(), source.stride(), strict=True))
    memory = (ctypes.c_uint8 * (elements * source.element_size())).from_address(_C.data_ptr(source))
    memory.owner = source
    return torch.frombuffer(memory, dtype=source.dtype).as_strided(source.size(), source.stride())


def device_of(tensor: torch.Tensor) -> tuple[enum.IntEnum, int]:
    """The DLPack device of a device tensor."""
    return (DLDeviceType.kDLCPU, 0)


def export(
    tensor: torch.Tensor,
    *,
    stream: int | None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[enum.IntEnum, int] | None = None,
    copy: bool | None = None,
    **newer: Any,
) -> Any:
    """`Tensor.__dlpack__` of a device tensor: a capsule over the same memory, or over a copy where `copy` asks for one."""
    if tensor.requires_grad:
        raise BufferError("a tensor that requires grad can't be exported; use tensor.detach()")
    if tensor.is_conj() or tensor.is_neg():
        raise BufferError("a tensor with the conjugate or negative bit can't be exported; use tensor.resolve_conj().resolve_neg()")
    if stream not in (None, -1):
        raise BufferError(f"memory of the CPU has no streams; stream must be None or -1 and is {stream}")
    view = host_view(tensor)
    return view.__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy, **newer)


def from_dlpack(source: Any) -> torch.Tensor:
    """A device tensor over the memory that `source` (an object with `__dlpack__`, or a capsule) exports from the CPU."""
    host = torch.from_dlpack(source)
    if host.is_xla:
        return host
    if host.device.type != "cpu":
        raise BufferError(f"the memory lies on {host.device}, but device xla is the CPU here; copy it with .to('cpu') first")
    return _C.wrap_host(host)
