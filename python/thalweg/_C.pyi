# Types of the C++ extension module: the contract between src/bindings/ and the Python packages.
from typing import Any

import torch

def init() -> None:
    """Registers the device with PyTorch. Idempotent; starts no thread and loads no compiler."""

def sync(wait: bool, reason: str) -> None:
    """Compiles and launches everything pending; `reason` goes to the flush log. With `wait`, returns when the device is done. Releases the GIL."""

def wait_device_ops() -> None:
    """Waits until everything launched is done, without flushing what is pending; raises errors of the launched work. Releases the GIL."""

def flush_log() -> list[dict[str, Any]]:
    """The recent flushes, oldest first. Keys: reason, compiled (bool), why, line, nodes, launches, seconds, arguments, outputs, donated, kernels,
    library_calls."""

def metrics() -> dict[str, Any]:
    """Counters (name -> int) and timers (name -> (count, total seconds, recent samples in seconds)) by upstream's names."""

def clear_metrics() -> None: ...
def fallbacks() -> dict[str, list[tuple[str, int]]]:
    """Op name ("aten::nonzero") -> [(Python line, count)] of the operations that ran on PyTorch's own kernels."""

def manual_seed(seed: int) -> None:
    """Seeds the device's generator; never flushes."""

def get_rng_state() -> torch.Tensor:
    """The generator's state, 16 uint8 on the CPU: seed then offset, both 64 bit little endian. Never flushes."""

def set_rng_state(state: torch.Tensor) -> None: ...
def memory_info() -> dict[str, int]:
    """Bytes of the device's memory. Keys: live, pending, cached, reserved, adopted, peak_live (of live and adopted), limit (0: none)."""

def record_history(limit: int) -> None:
    """Starts a new recording of memory and work, of the latest `limit` events; 0 ends the present one."""

def memory_snapshot() -> dict[str, list[tuple[Any, ...]]]:
    """Keys: blocks, all reserved memory by address: (address, bytes, requested bytes, "live" | "pending" | "free", stream, label); and events, the latest
    recording by time: ("allocated" | "freed" | "completed" | "out of memory" | "ran", start and end in ns since 1970, address, bytes, stream, label)."""

def memory_report() -> str:
    """Who holds what, as text."""

def reset_peak_memory() -> None:
    """Sets peak_live back to what is live now."""

def set_memory_limit(bytes: int) -> None:
    """Allocations beyond raise torch.OutOfMemoryError; 0 takes the limit away."""

def set_eager(on: bool) -> None:
    """Debug mode: flushes after each operation."""

def set_record_lines(on: bool) -> None:
    """Whether each traced operation remembers the Python line that asked for it."""

def set_nan_guard(on: bool) -> None:
    """Whether launches raise FloatingPointError when a floating-point result is not finite."""

def tensor_id(tensor: torch.Tensor) -> int:
    """A number that is the same for the same storage and different for live different ones."""

def graph_text(tensors: list[torch.Tensor]) -> str:
    """The pending program that computes `tensors`, as StableHLO text. Does not run it."""

def set_flush_budget(n_ops: int) -> None:
    """Flushes on its own after this many operations since the last sync."""

def resize_storage(tensor: torch.Tensor, bytes: int) -> None:
    """Changes the byte size of the tensor's storage, keeping the common prefix."""

def peek_address(tensor: torch.Tensor) -> int:
    """Where the tensor's first element lies now, without fixing it there: runs what is pending."""

def data_ptr(tensor: torch.Tensor) -> int:
    """The address, on the device, of the tensor's first element: runs what is pending and marks the storage exposed (later versions stay there)."""

def device_kind() -> str:
    """What computes: "CPU" or "CUDA". Makes nothing; raises when PJRT_DEVICE wants what there is not."""

def choose_device_kind(kind: str) -> None:
    """Chooses what computes, before it has been looked up."""

def dlpack_place() -> tuple[int, int]:
    """The DLPack device type and number of device tensors."""

def wrap_host(tensor: torch.Tensor) -> torch.Tensor:
    """A device tensor over a CPU tensor's memory, which it keeps alive; the storage counts as exposed."""

def to_dlpack(
    tensor: torch.Tensor,
    *,
    stream: int | None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
    read_only: bool = False,
) -> Any:
    """A DLPack capsule over the device tensor's memory; the arguments are those of `__dlpack__`. Runs what is pending and waits."""

def lend_to_torch(source: Any) -> torch.Tensor | None:
    """A CPU tensor over the memory of a device tensor on the CPU; None for everything else."""

def from_dlpack(source: Any, copy: bool | None = None) -> torch.Tensor:
    """A device tensor over the memory of an array, a tensor or a capsule; over a copy with `copy`."""

def extended_exchange_api(core: Any, read_only: bool) -> Any:
    """A capsule like `core`, a DLPack table of C functions, whose functions know device tensors too; with `read_only` they lend these for reading only."""

def leaked_releases() -> int:
    """Deleters of imported arrays that were left uncalled because the interpreter was going away."""
