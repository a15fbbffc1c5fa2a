"""Thalweg: an XLA device for PyTorch.

Importing this package (or `torch_xla`, which does it too) registers the device `xla` with PyTorch and nothing else: no thread starts, no compiler is
loaded and no memory is taken until the first operation on the device runs.
"""

from thalweg import versions

versions.check()

try:
    from thalweg import _C
except ImportError as error:  # the extension is missing, or was built for another PyTorch
    raise ImportError(versions.extension_message(error)) from error

from thalweg import patches  # noqa: E402
from thalweg.explaining import Explanation, Flush, explain, flushes  # noqa: E402

__version__ = "0.1.0"
__all__ = ["Explanation", "Flush", "__version__", "explain", "flushes", "memory_info", "record_lines", "set_eager", "set_memory_limit", "set_nan_guard"]

_C.init()
patches.apply()


def set_eager(on: bool = True) -> None:
    """Debug mode: every operation is compiled and run by itself, at the line that asked for it. Slow; the numbers stay the same."""
    _C.set_eager(on)


def set_nan_guard(on: bool = True) -> None:
    """Makes every launch check its floating-point results; the first that is not finite raises FloatingPointError with its operation and line."""
    _C.set_nan_guard(on)


def set_memory_limit(size: int) -> None:
    """Limits the device to `size` bytes; an allocation beyond raises torch.OutOfMemoryError. 0 takes the limit away."""
    if size < 0:
        raise ValueError(f"a memory limit is a number of bytes, 0 or more; it is {size}")
    _C.set_memory_limit(size)


def memory_info() -> dict[str, int]:
    """Bytes of the device's memory: live (in tensors), adopted (in tensors, but other libraries' memory), pending (freed, still used by queued
    work), cached, reserved, peak_live (of live and adopted), limit (0: none)."""
    return dict(_C.memory_info())


def record_lines(on: bool = True) -> None:
    """Whether operations remember the Python line that asked for them, for errors and `explain()`. Costs about a microsecond an operation."""
    _C.set_record_lines(on)
