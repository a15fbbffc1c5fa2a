"""`torch_xla.debug.profiler`, usually `xp`: names for parts of a program, seen by torch.profiler."""

from types import TracebackType
from typing import Any

import torch

from torch_xla import _upstream, step_scope


class Trace:
    """Context whose operations appear under `name` in a torch.profiler trace. Keywords are appended to the name."""

    def __init__(self, name: str, **kwargs: Any) -> None:
        details = ",".join(f"{key}={value}" for key, value in kwargs.items())
        self._range = torch.profiler.record_function(f"{name}#{details}#" if details else name)

    def __enter__(self) -> "Trace":
        self._range.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._range.__exit__(kind, error, trace)


class StepTrace(Trace):
    """A Trace that is a step: leaving it without an exception ends the step."""

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__(name, **kwargs)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                step_scope.sync()
        finally:
            super().__exit__(kind, error, trace)


__getattr__ = _upstream.missing(__name__)
