"""DLPack of device tensors: host memory where the device computes on the CPU, a GPU's memory where it computes there; exchanged without a copy.

What either side writes the other sees: an exported tensor's storage stays at its address, and its writes have arrived once they have run (`torch_xla.sync`,
or reading a value). An export keeps the memory alive whatever becomes of the tensor, and an imported array lives as long as a tensor over it, or work of
ours that reads it.
"""

import enum
from typing import Any

import torch
from torch.utils.dlpack import DLDeviceType

from thalweg import _C

# The extended table of C functions of each type that has one: what `type.__dlpack_c_exchange_api__` is.
exchange_apis: dict[type, Any] = {}


def device_of(tensor: torch.Tensor) -> tuple[enum.IntEnum, int]:
    """The DLPack device of a device tensor."""
    kind, number = _C.dlpack_place()
    return (DLDeviceType(kind), number)


def export(
    tensor: torch.Tensor,
    *,
    stream: int | None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[enum.IntEnum, int] | None = None,
    copy: bool | None = None,
    read_only: bool = False,
) -> Any:
    """`Tensor.__dlpack__` of a device tensor: a capsule over the same memory, or over a copy where `copy` asks for one.

    `max_version` (1, 0) or newer gives a versioned capsule. `read_only` tells the consumer not to write and needs one. Raises BufferError for what can't be
    exported: tensors that require grad, lazy conjugates and negatives, other devices, streams.
    """
    return _C.to_dlpack(tensor, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy, read_only=read_only)


def from_dlpack(source: Any, *, copy: bool | None = None) -> torch.Tensor:
    """A device tensor over the memory of `source`: a tensor, an array with `__dlpack__` or DLPack's C functions, or a capsule.

    An array that says it is read-only is never written to: a write to its tensor moves that tensor to memory of its own. Raises BufferError for memory of
    another device and for negative or overlapping strides, TypeError for element types that tensors do not have.
    """
    return _C.from_dlpack(source, copy)


def extend_exchange_api(kind: type[torch.Tensor]) -> None:
    """Puts device tensors into the table of C functions that a tensor type offers."""
    read_only = kind is not torch.Tensor
    exchange_apis[kind] = _C.extended_exchange_api(kind.__dict__["__dlpack_c_exchange_api__"], read_only)
    setattr(kind, "__dlpack_c_exchange_api__", exchange_apis[kind])  # noqa: B010  (mypy takes the attribute for a constant)
