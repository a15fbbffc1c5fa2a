"""`torch_xla.debug.metrics`, usually `met`: counters and timers of the device."""

from collections.abc import Sequence
from typing import Any

from thalweg import _C

from torch_xla import _upstream


def _counters() -> dict[str, int]:
    return {name: value for name, value in _C.metrics().items() if isinstance(value, int)}


def _timers() -> dict[str, Any]:
    return {name: value for name, value in _C.metrics().items() if not isinstance(value, int)}


def counter_names() -> list[str]:
    """Names of the counters that have counted anything."""
    return sorted(_counters())


def counter_value(name: str) -> int | None:
    """The counter's value; None when nothing was counted."""
    return _counters().get(name)


def metric_names() -> list[str]:
    """Names of the timers that have samples."""
    return sorted(_timers())


def metric_data(name: str) -> tuple[int, float, list[tuple[float, float]]] | None:
    """(samples, total, recent samples as (when, value)) of a timer, in nanoseconds as PyTorch/XLA has them; None without samples."""
    timer = _timers().get(name)
    if timer is None:
        return None
    recent = timer[2] if len(timer) > 2 else []
    return int(timer[0]), float(timer[1]) * 1e9, [(0.0, float(sample) * 1e9) for sample in recent]


def executed_fallback_ops() -> list[str]:
    """Names of the operations that ran on PyTorch's own kernels."""
    return sorted(_C.fallbacks())


def fallback_lines() -> dict[str, list[tuple[str, int]]]:
    """For each operation that ran on PyTorch's own kernels, the Python lines that caused it and how often."""
    return _C.fallbacks()


def clear_counters() -> None:
    """Sets counters and timers back."""
    _C.clear_metrics()


clear_metrics = clear_counters
clear_all = clear_counters


def metrics_report() -> str:
    """All timers and counters as text."""
    return _report(metric_names(), counter_names())


def short_metrics_report(counter_names: Sequence[str] | None = None, metric_names: Sequence[str] | None = None) -> str:
    """The timers and counters named so, by default those that tell of compiling and running, as text."""
    timers, counters = _timers(), _counters()
    chosen_timers = metric_names or ("CompileTime", "ExecuteTime", "TransferToDeviceTime", "TransferFromDeviceTime")
    chosen_counters = counter_names or ("CachedCompile", "UncachedCompile", "MarkStep", *(name for name in counters if name.startswith("aten::")))
    return _report([name for name in chosen_timers if name in timers], [name for name in chosen_counters if name in counters])


def _report(timer_names: Sequence[str], names: Sequence[str]) -> str:
    timers, counters = _timers(), _counters()
    lines = []
    for name in timer_names:
        count, total = int(timers[name][0]), float(timers[name][1])
        lines += [f"Metric: {name}", f"  TotalSamples: {count}", f"  Accumulator: {_duration(total)}"]
        lines += [f"  Mean: {_duration(total / count)}"] if count else []
    for name in names:
        lines += [f"Counter: {name}", f"  Value: {counters[name]}"]
    return "\n".join(lines)


def _duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3f}{unit}"
    return f"{seconds * 1e9:.0f}ns"


__getattr__ = _upstream.missing(__name__)
