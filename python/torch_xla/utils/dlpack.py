"""`torch_xla.utils.dlpack`: exchanging tensors with other libraries without a copy."""

from typing import Any

import torch
from thalweg import dlpack


def to_dlpack(xla_tensor: Any) -> Any:
    """A capsule over the memory of a tensor on the XLA device. Runs what is pending; what either side writes the other sees."""
    if not (isinstance(xla_tensor, torch.Tensor) and xla_tensor.is_xla):
        raise TypeError(f"to_dlpack takes a tensor on device xla; got {type(xla_tensor).__name__} on {getattr(xla_tensor, 'device', 'no device')}")
    return dlpack.export(xla_tensor)


def from_dlpack(ext_tensor: Any) -> torch.Tensor:
    """A tensor on the XLA device over the memory of `ext_tensor`: an object with `__dlpack__`, or a capsule."""
    return dlpack.from_dlpack(ext_tensor)
