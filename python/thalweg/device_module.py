"""`torch.xla`: the functions that PyTorch's Python expects of a device type, e.g. for activation checkpoints and `torch.random.fork_rng`."""

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any, TypeAlias

import torch

from thalweg import _C

_Device: TypeAlias = torch.device | str | int | None
_process = os.getpid()
_initialized = True  # activation checkpoints keep the generator's state only for devices that say so


def _check(device: _Device) -> torch.device:
    """The device meant, checked: there is one, number 0."""
    if device is None:
        return torch.device("xla", 0)
    found = torch.device("xla", device) if isinstance(device, int) else torch.device(device)
    if found.type != "xla" or (found.index or 0) != 0:
        raise ValueError(f"there is one XLA device, xla:0; asked for {found}")
    return torch.device("xla", 0)


def is_available() -> bool:
    """Whether tensors can live on the device."""
    return True


def is_initialized() -> bool:
    """True: the device needs no initialisation of its own."""
    return True


def init() -> None:
    """Does nothing: the device is registered when its package is imported."""


def device_count() -> int:
    """The number of devices, 1. Does not touch any of them."""
    return 1


def current_device() -> int:
    """The index of the device that `device="xla"` means."""
    return 0


def set_device(device: _Device) -> None:
    """Checks that `device` exists; there is only one to choose."""
    _check(device)


@contextlib.contextmanager
def device(device: _Device) -> Iterator[None]:
    """Context in which `device` is the current one."""
    if not (isinstance(device, int) and device < 0):
        _check(device)
    yield


def get_device_name(device: _Device = None) -> str:
    """What computes: "CPU" or "CUDA"."""
    _check(device)
    return _C.device_kind()


def synchronize(device: _Device = None) -> None:
    """Runs what is pending and waits until the device is done."""
    _check(device)
    _C.sync(True, "torch.xla.synchronize")


def _is_in_bad_fork() -> bool:
    """Whether this process was forked from one that had imported the package; the device's threads do not exist here."""
    return os.getpid() != _process


def manual_seed(seed: int) -> None:
    """Seeds the device's random numbers. Never runs what is pending."""
    seed = int(seed)
    if not -(2**63) <= seed < 2**64:
        raise RuntimeError(f"a seed lies between -2**63 and 2**64 - 1; it is {seed}")
    _C.manual_seed(seed if seed >= 0 else 2**64 - 1 + seed)  # as core does


manual_seed_all = manual_seed


def get_rng_state(device: _Device = None) -> torch.Tensor:
    """The state of the device's random numbers, 16 uint8 on the CPU. Never runs what is pending."""
    _check(device)
    return _C.get_rng_state()


def set_rng_state(new_state: torch.Tensor, device: _Device = None) -> None:
    """Returns to a state of `get_rng_state`. Never runs what is pending."""
    _check(device)
    _C.set_rng_state(new_state)


def initial_seed() -> int:
    """The seed of the device's random numbers."""
    return int.from_bytes(bytes(_C.get_rng_state()[:8].tolist()), "little")


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that autocast can compute in."""
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 computes: yes, where the processor lacks it by rounding float32."""
    return True


def memory_allocated(device: _Device = None) -> int:
    """Bytes in live tensors."""
    _check(device)
    info = _C.memory_info()
    return info["live"] + info["adopted"]


def max_memory_allocated(device: _Device = None) -> int:
    """The most bytes that were in live tensors at once."""
    _check(device)
    return _C.memory_info()["peak_live"]


def reset_peak_memory_stats(device: _Device = None) -> None:
    """Starts max_memory_allocated() anew."""
    _check(device)
    _C.reset_peak_memory()


def memory_reserved(device: _Device = None) -> int:
    """Bytes taken from the system: in use, or kept for reuse."""
    _check(device)
    return _C.memory_info()["reserved"]


class Stream:
    """The device's one compute stream: all operations are ordered on it, so waits between two of these objects are already fulfilled."""

    def __init__(self, device: _Device = None, priority: int = 0) -> None:
        self.device = _check(device)
        self.priority = priority

    def synchronize(self) -> None:
        """Runs what is pending and waits until it is done."""
        synchronize(self.device)

    def wait_stream(self, stream: "Stream") -> None:
        """Orders later work after `stream`'s; one stream always is."""

    def wait_event(self, event: "Event") -> None:
        """Orders later work after `event`; one stream always is."""

    def record_event(self, event: "Event | None" = None) -> "Event":
        """Records `event`, or a new one, after the work so far."""
        event = event or Event()
        event.record(self)
        return event

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.device == other.device

    def __hash__(self) -> int:
        return hash(self.device)


class Event:
    """A point in the device's order of work. With `enable_timing`, recording waits for the work before it, so that the time means something."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        if interprocess:
            raise NotImplementedError("events of device xla can't be shared between processes")
        self.enable_timing = enable_timing
        self._time: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Starts what is pending; the event completes when that is done."""
        _C.sync(self.enable_timing, "Event.record")
        self._time = time.perf_counter()

    def wait(self, stream: Stream | None = None) -> None:
        """Orders later work after this event; one stream always is."""

    def synchronize(self) -> None:
        """Waits until the event has completed."""
        _C.wait_device_ops()

    def query(self) -> bool:
        """Whether the event has completed; waits for it, since the device reports completion only by waiting."""
        _C.wait_device_ops()
        return True

    def elapsed_time(self, end: "Event") -> float:
        """Milliseconds from this event to `end`. Both need `enable_timing` and must have been recorded."""
        if not (self.enable_timing and end.enable_timing):
            raise ValueError("elapsed_time needs two events made with enable_timing=True")
        if self._time is None or end._time is None:
            raise ValueError("elapsed_time needs two recorded events; call record() on both")
        return (end._time - self._time) * 1e3


def current_stream(device: _Device = None) -> Stream:
    """The stream that work goes to."""
    return Stream(device)


default_stream = current_stream


@contextlib.contextmanager
def stream(stream: Stream | None) -> Iterator[None]:
    """Context in which `stream` is current; there is only one."""
    yield


def set_stream(stream: Stream) -> None:
    """Makes `stream` current; there is only one."""


def __getattr__(name: str) -> Any:
    raise AttributeError(f"torch.xla has no attribute {name!r}")
