"""`torch_xla.experimental`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from thalweg import _C

from torch_xla import _upstream, step_scope

_eager = [False]


def eager_mode(enable: bool) -> None:
    """Debug mode: every operation is compiled and run by itself."""
    _eager[0] = bool(enable)
    _C.set_eager(_eager[0])


def is_eager_mode() -> bool:
    """Whether eager_mode is on."""
    return _eager[0]


@contextmanager
def eager_mode_context(enable: bool) -> Iterator[None]:
    """Context with eager_mode set so."""
    before = is_eager_mode()
    eager_mode(enable)
    try:
        yield
    finally:
        eager_mode(before)


def compile(*args: Any, **kwargs: Any) -> Any:
    """`torch_xla.compile`."""
    return step_scope.compile(*args, **kwargs)


__getattr__ = _upstream.missing(__name__)
