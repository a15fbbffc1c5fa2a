"""What exchanging an array without a copy costs: ours beside torch to torch, and NumPy, JAX and CuPy where they are installed.

    PYTHONPATH=python python bench/exchange.py

Through Python: microseconds from an array of one library to one of the other over the same memory, with the drop of the result. Through the C functions of
DLPack 1.2 and later, as a library uses them for the arguments of a call: nanoseconds an array. Each figure is the minimum of many runs, and they take turns.
"""

import argparse
import ctypes
import gc
import importlib
import pathlib
import subprocess
import tempfile
import timeit
from collections.abc import Callable
from typing import Any

import numpy
import torch
import torch_xla  # noqa: F401
from thalweg import dlpack

ROOT = pathlib.Path(__file__).resolve().parents[1]


def loops() -> ctypes.CDLL:
    """The loops over C functions, compiled."""
    library = pathlib.Path(tempfile.mkdtemp(prefix="thalweg-bench-")) / "exchange_loop.so"
    command = ["c++", "-std=c++20", "-O2", "-shared", "-fPIC", f"-I{ROOT / 'src'}", str(ROOT / "bench" / "exchange_loop.cpp"), "-o", str(library)]
    subprocess.run(command, check=True)
    found = ctypes.PyDLL(str(library))
    for function in (found.borrow_nanoseconds, found.own_nanoseconds):
        function.restype, function.argtypes = ctypes.c_double, [ctypes.c_void_p, ctypes.py_object, ctypes.c_long]
    return found


def table_of(array: Any) -> int | None:
    """The address of the C functions of the array's type."""
    capsule = getattr(type(array), "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return pointer(capsule, b"dlpack_exchange_api")


def python_cases() -> dict[str, Callable[[], Any]]:
    """Exchanges by name: from → to."""
    xla, host, array = torch.ones(16, device="xla"), torch.ones(16), numpy.ones(16, dtype=numpy.float32)
    cases: dict[str, Callable[[], Any]] = {
        "torch → torch": lambda: torch.from_dlpack(host),
        "xla → torch": lambda: torch.from_dlpack(xla),
        "torch → xla": lambda: dlpack.from_dlpack(host),
        "xla → xla": lambda: dlpack.from_dlpack(xla),
        "torch → numpy": lambda: numpy.from_dlpack(host),
        "xla → numpy": lambda: numpy.from_dlpack(xla),
        "numpy → torch": lambda: torch.from_dlpack(array),
        "numpy → xla": lambda: dlpack.from_dlpack(array),
        "torch capsule": lambda: host.__dlpack__(max_version=(1, 0)),
        "xla capsule": lambda: xla.__dlpack__(max_version=(1, 0)),
    }
    for name, module in (("jax", "jax.numpy"), ("cupy", "cupy")):
        try:
            library = importlib.import_module(module)
        except ImportError:
            print(f"{name} is not installed")
            continue
        theirs = library.ones(16, dtype="float32")
        cases[f"torch → {name}"] = lambda library=library: library.from_dlpack(host)
        cases[f"xla → {name}"] = lambda library=library: library.from_dlpack(xla)
        cases[f"{name} → torch"] = lambda theirs=theirs: torch.from_dlpack(theirs)
        cases[f"{name} → xla"] = lambda theirs=theirs: dlpack.from_dlpack(theirs)
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--count", type=int, default=2000)
    options = parser.parse_args()
    cases = python_cases()
    best = dict.fromkeys(cases, float("inf"))
    gc.disable()
    for _ in range(options.repeats):
        for name, function in cases.items():
            best[name] = min(best[name], timeit.timeit(function, number=options.count) / options.count)
    print("through Python, µs:")
    for name, seconds in best.items():
        print(f"  {name:16} {seconds * 1e6:6.2f}")

    found = loops()
    arrays = {"torch": torch.ones(16), "xla": torch.ones(16, device="xla")}
    times: dict[tuple[str, str], float] = {}
    for _ in range(options.repeats):
        for name, array in arrays.items():
            for kind, function in (("borrowed", found.borrow_nanoseconds), ("owned", found.own_nanoseconds)):
                time = function(table_of(array), array, options.count)
                times[name, kind] = min(times.get((name, kind), float("inf")), time)
    print("through the C functions, ns:")
    for (name, kind), time in times.items():
        print(f"  {name:6} {kind:9} {time:6.1f}")


if __name__ == "__main__":
    main()
