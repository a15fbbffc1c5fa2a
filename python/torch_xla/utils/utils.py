"""`torch_xla.utils.utils`, usually `xu`: data that is made up, environment variables, small conversions."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

_T = TypeVar("_T")


class SampleGenerator:
    """A loader that gives the same `data` (a batch) `sample_count` times."""

    def __init__(self, data: Any, sample_count: int) -> None:
        self._data, self._sample_count = data, sample_count

    def __iter__(self) -> Iterator[Any]:
        for _ in range(self._sample_count):
            yield self._data

    def __len__(self) -> int:
        return self._sample_count


class FnDataGenerator:
    """A loader that gives `fn(batch_size, index, **kwargs)` for index 0 to count - 1."""

    def __init__(self, fn: Callable[..., Any], batch_size: int, gen_tensor: Any = None, dims: Any = None, count: int = 1) -> None:
        self._fn, self._batch_size, self._count = fn, batch_size, count

    def __iter__(self) -> Iterator[Any]:
        return (self._fn(self._batch_size, index) for index in range(self._count))

    def __len__(self) -> int:
        return self._count


def getenv_as(name: str, type_: Callable[[Any], _T], defval: Any = None) -> Any:
    """Environment variable `name` as `type_`; `defval` when it is not set. For bool, 0, false and the empty text are False."""
    value = os.environ.get(name)
    if value is None:
        return defval
    return value.lower() not in ("", "0", "false", "no") if type_ is bool else type_(value)


def as_list(value: Any) -> list[Any]:
    """A list as it is, a tuple as a list, anything else as the only element of one."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def list_copy_append(values: list[Any], value: Any) -> list[Any]:
    """A new list with `value` at the end."""
    return [*values, value]


def eprint(*args: Any, **kwargs: Any) -> None:
    """print() to standard error."""
    print(*args, file=sys.stderr, **kwargs)


class TimedScope:
    """Context that prints how long it took."""

    def __init__(self, msg: str = "", printfn: Callable[[str], None] | None = print) -> None:
        self._message, self._print = msg, printfn

    def __enter__(self) -> "TimedScope":
        self._start = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        if self._print is not None:
            self._print(f"{self._message}{time.monotonic() - self._start:.3f}s")


def timed(fn: Callable[[], _T], msg: str = "", printfn: Callable[[str], None] = eprint) -> _T:
    """`fn()`, and prints how long it took."""
    with TimedScope(msg=msg, printfn=printfn):
        return fn()
