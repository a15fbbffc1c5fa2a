"""Which devices there are. One, whatever computes behind it."""

import torch
from thalweg import _C


def device(index: int | None = None) -> torch.device:
    """The XLA device, as `torch.device`. `index` may only be 0."""
    if index not in (None, 0):
        raise ValueError(f"there is one XLA device, number 0; asked for number {index}")
    return torch.device("xla", 0)


def devices() -> list[torch.device]:
    """All XLA devices of this process."""
    return [device()]


def real_devices() -> list[str]:
    """What is behind each device: "CPU:0" or "CUDA:0"."""
    return [f"{_C.device_kind()}:0"]


def device_count() -> int:
    """The number of XLA devices of this process."""
    return len(devices())
