"""What the tests compare with, and how they count what the device did."""

import contextlib
from collections.abc import Iterator

import torch


class Work:
    """What the device did within a `watch()`."""

    launches = 0
    compiles = 0
    fallbacks = 0


def _now() -> tuple[int, int, int]:
    from torch_xla.debug import metrics

    fallbacks = sum(count for lines in metrics.fallback_lines().values() for _, count in lines)
    return (metrics.metric_data("ExecuteTime") or (0,))[0], (metrics.metric_data("CompileTime") or (0,))[0], fallbacks


@contextlib.contextmanager
def watch() -> Iterator[Work]:
    """Counts launches, compiles and fallbacks inside."""
    work, before = Work(), _now()
    yield work
    work.launches, work.compiles, work.fallbacks = (after - then for after, then in zip(_now(), before, strict=True))


def assert_same(actual: torch.Tensor, expected: torch.Tensor, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Values, dtype, sizes and strides of a device tensor and the CPU's."""
    assert actual.device.type == "xla"
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if expected.numel():
        ours = [stride for stride, size in zip(actual.stride(), actual.shape, strict=True) if size > 1]
        theirs = [stride for stride, size in zip(expected.stride(), expected.shape, strict=True) if size > 1]
        assert ours == theirs, f"strides {actual.stride()} for the CPU's {expected.stride()}"
    assert actual.requires_grad == expected.requires_grad
    torch.testing.assert_close(actual.detach().cpu(), expected.detach(), rtol=rtol, atol=atol, equal_nan=True)
