"""`torch_xla.runtime`: what runs behind the devices, and this process's place among others."""

import os
from typing import Any

import torch
from thalweg import _C

from torch_xla import _upstream, devices_list


def device_type() -> str:
    """What computes: "CPU" or "CUDA". PJRT_DEVICE chooses; without it a GPU is taken where there is one that can be used."""
    return devices_list.real_devices()[0].split(":")[0]


def set_device_type(pjrt_device: str) -> None:
    """Chooses what computes, "CPU" or "CUDA". Before the first tensor."""
    _C.choose_device_kind(pjrt_device)


def using_pjrt() -> bool:
    """True; older scripts ask."""
    return True


def xla_device(n: int | None = None, devkind: str | None = None) -> torch.device:
    """The XLA device; `torch_xla.device()` is the newer spelling."""
    return devices_list.device(n)


def is_bf16_supported() -> bool:
    """Whether tensors may be bfloat16."""
    return True


def world_size() -> int:
    """Processes times devices that train together; 1."""
    return 1


def process_count() -> int:
    """Processes that train together; 1."""
    return 1


def process_index() -> int:
    """This process's number."""
    return 0


def global_ordinal() -> int:
    """This device's number among all."""
    return 0


def local_ordinal() -> int:
    """This device's number on this machine."""
    return 0


def local_process_count() -> int:
    """Processes on this machine."""
    return 1


def local_device_count() -> int:
    """Devices of this machine's processes."""
    return 1


def addressable_device_count() -> int:
    """Devices of this process."""
    return 1


def addressable_runtime_device_count() -> int:
    """Devices of this process."""
    return 1


def global_device_count() -> int:
    """Devices of all processes."""
    return 1


def global_runtime_device_count() -> int:
    """Devices of all processes."""
    return 1


def global_runtime_device_attributes() -> list[dict[str, object]]:
    """Facts about each device."""
    return [{"name": devices_list.real_devices()[0]}]


def runtime_device_attributes(device: str) -> dict[str, object]:
    """Facts about the device named so ("CPU:0")."""
    if device not in devices_list.real_devices():
        raise ValueError(f"there is no device {device!r}; there are {devices_list.real_devices()}")
    return {"name": device}


def host_index() -> int:
    """This machine's number."""
    return 0


def master_ip() -> str:
    """Where the first process listens."""
    return os.environ.get("MASTER_ADDR", "localhost")


def use_spmd(auto: bool = False) -> None:
    """Turns the program into one over a mesh of all devices. With one device that is what it is already."""
    _spmd[0] = True


def is_spmd() -> bool:
    """Whether use_spmd() was called."""
    return _spmd[0]


_spmd = [False]


def initialize_cache(path: str, readonly: bool = False) -> None:
    """Would keep compiled programs on disk; there is no such cache yet, and this says so."""
    raise NotImplementedError(f"programs can't be kept on disk yet (asked for {path!r}); leave initialize_cache out")


def clear_computation_cache() -> None:
    """Would forget compiled programs."""
    raise NotImplementedError("compiled programs can't be forgotten yet")


def memory_info() -> dict[str, Any]:
    """Bytes of the device's memory: live, pending, cached, reserved, adopted, peak_live, limit."""
    return dict(_C.memory_info())


__getattr__ = _upstream.missing(__name__)
