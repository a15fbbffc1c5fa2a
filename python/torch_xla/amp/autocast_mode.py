"""Autocast on the XLA device."""

import functools
from typing import Any

import torch
from thalweg import device_module


class autocast(torch.amp.autocast_mode.autocast):  # noqa: N801  the name scripts use
    """Context (or decorator) in which products and convolutions on `device` compute in `dtype`, bfloat16 by default."""

    def __init__(self, device: Any = "xla", enabled: bool = True, dtype: torch.dtype | None = None, cache_enabled: bool | None = True) -> None:
        device_module._check(device)
        super().__init__("xla", dtype=dtype or torch.bfloat16, enabled=enabled, cache_enabled=cache_enabled)


custom_fwd = functools.partial(torch.amp.custom_fwd, device_type="xla")
custom_bwd = functools.partial(torch.amp.custom_bwd, device_type="xla")


def is_autocast_available() -> bool:
    """Whether autocast works on the XLA device."""
    return torch.amp.is_autocast_available("xla")
