"""Where a step ends: sync, step, compile and launch."""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, overload

import thalweg
from thalweg import _C, device_module

_Function = TypeVar("_Function", bound=Callable[..., Any])

# Closures to run after the next sync: (function, arguments, run in a thread of its own). Per thread, as steps are.
_local = threading.local()


def add_closure(closure: Callable[..., Any], args: tuple[Any, ...], run_async: bool) -> None:
    """Has `closure(*args)` called after this thread's next sync."""
    if not hasattr(_local, "closures"):
        _local.closures = []
    _local.closures.append((closure, args, run_async))


def _run_closures() -> None:
    closures = getattr(_local, "closures", [])
    _local.closures = []
    for closure, args, run_async in closures:
        if run_async:
            threading.Thread(target=closure, args=args, daemon=True).start()
        else:
            closure(*args)


def sync(wait: bool = False, reset_scope: bool = True) -> None:
    """Ends a step: compiles what is pending as one program where it is new, and launches it.

    wait: return only when the device is done. Step closures run after the launch. Errors of work launched earlier are raised here.
    """
    _C.sync(bool(wait), "sync")
    _run_closures()


@contextlib.contextmanager
def step() -> Iterator[None]:
    """Context whose work is one step: what was pending is launched before, and the step after. An exception inside goes on unchanged."""
    sync()
    try:
        yield
    except BaseException as error:
        # What the step traced before it failed still has to run, or later steps would carry it; its own errors must not hide this one.
        try:
            _C.sync(False, "step left by an exception")
        except Exception as second:  # noqa: BLE001  any error of the device belongs in the note
            error.add_note(f"the device reported as well: {second}")
        raise
    else:
        sync()


class GraphLimitError(RuntimeError):
    """A compiled function needed more programs than it was allowed."""


@overload
def compile(
    f: _Function,
    full_graph: bool | None = False,
    name: str | None = None,
    num_different_graphs_allowed: int | None = None,
    max_different_graphs: int | None = None,
) -> _Function: ...


@overload
def compile(
    f: None = None,
    full_graph: bool | None = False,
    name: str | None = None,
    num_different_graphs_allowed: int | None = None,
    max_different_graphs: int | None = None,
) -> Any: ...


def compile(
    f: Any = None,
    full_graph: bool | None = False,
    name: str | None = None,
    num_different_graphs_allowed: int | None = None,
    max_different_graphs: int | None = None,
) -> Any:
    """Makes each call of `f` one step, hence one program. With no function: a context manager and decorator that does so.

    full_graph: raise RuntimeError when the call has to run a part early, e.g. to read a value.
    max_different_graphs (num_different_graphs_allowed is its older name): raise GraphLimitError once calls have compiled more programs than this.
    name: used in these errors.
    """
    limit = max_different_graphs if max_different_graphs is not None else num_different_graphs_allowed
    label = name or str(getattr(f, "__name__", "torch_xla.compile"))
    scope = functools.partial(_compiled_call, bool(full_graph), label, limit, [0])
    if f is None:
        return contextlib.contextmanager(scope)()

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with contextlib.contextmanager(scope)():
            return f(*args, **kwargs)

    return wrapper


def _compiled_call(full_graph: bool, label: str, limit: int | None, compiled: list[int]) -> Iterator[None]:
    """One call: a step with its promises checked. `compiled` holds the programs that earlier calls compiled."""
    sync()
    watched = full_graph or limit is not None
    before = _executions() if watched else (0, 0)
    yield
    if full_graph:
        early = _executions()[0] - before[0]
        if early:
            _C.sync(False, "sync")
            raise RuntimeError(
                f"{label} was compiled with full_graph=True, but ran {early} part(s) early, for: {thalweg.explain(early)}\n"
                "Move reads of values (item(), print, float(), if) out of the function, or use full_graph=False."
            )
    sync()
    if limit is not None:
        compiled[0] += _executions()[1] - before[1]
        if compiled[0] > limit:
            raise GraphLimitError(
                f"{label} needed {compiled[0]} different programs, more than the {limit} allowed; the last compiled because:\n"
                f"{thalweg.explain(1, compiles_only=True)}"
            )


def _executions() -> tuple[int, int]:
    """(launches, compiles) so far."""
    metrics = _C.metrics()
    return _samples(metrics.get("ExecuteTime")), _samples(metrics.get("CompileTime"))


def _samples(timer: Any) -> int:
    return 0 if timer is None else int(timer[0])


def launch(fn: Callable[..., Any], args: tuple[Any, ...] = (), start_method: str = "spawn", debug_single_process: bool = False) -> None:
    """Runs `fn(index, *args)` once for each device; there is one, so it runs here, with index 0."""
    from torch_xla.distributed import xla_multiprocessing

    xla_multiprocessing.spawn(fn, args=args, nprocs=1, start_method=start_method)


def manual_seed(seed: int, device: Any = None) -> None:
    """Seeds the random numbers of the XLA device. Never runs what is pending."""
    device_module._check(device)
    device_module.manual_seed(seed)
