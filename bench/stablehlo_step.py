"""StableHLO programs on the CPU: compiled and run by Thalweg and by JAX's XLA, taking turns, in one run.

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE python bench/stablehlo_step.py PROGRAM.mlir … [--thalweg COMMAND] [--rounds 7]

Beside each PROGRAM.mlir lies PROGRAM.npz with its inputs in_0, in_1, …. Prints compile seconds (cold: the kernel cache is a fresh folder) and the median and
fastest milliseconds of a run whose inputs lie on the device, and JAX's time as a ratio to ours. Without JAX only ours is timed.
"""

import argparse
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy

try:
    import jax
    import jaxlib.xla_client
except ImportError:
    jax = None


class Ours:
    """The command line program; one process a round, as many runs in it as asked for."""

    def __init__(self, command: str, program: pathlib.Path, runs: int) -> None:
        self.arguments = [command, "run", str(program), "--inputs", str(program.with_suffix(".npz")), "--device", "cpu", "--report"]
        self.folder = tempfile.TemporaryDirectory()
        self.arguments += ["--repeat", str(runs), "--out", os.path.join(self.folder.name, "out.npz")]
        with tempfile.TemporaryDirectory() as cold:
            self.compile_seconds = self._run(cold)[0]
        self.cache = os.path.join(self.folder.name, "cache")
        self._run(self.cache)

    def _run(self, cache: str) -> tuple[float, float, float]:
        done = subprocess.run(self.arguments, capture_output=True, text=True, env={**os.environ, "THALWEG_CACHE_DIR": cache}, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(self.arguments)} failed:\n{done.stderr}")
        prepared = re.search(r"prepared in ([\d.e+-]+) s", done.stderr)
        timed = re.search(r"median of \d+ runs: ([\d.e+-]+) ms, fastest ([\d.e+-]+) ms", done.stdout)
        return float(prepared[1]), float(timed[1]), float(timed[2])

    def round(self) -> tuple[float, float]:
        """Median and fastest milliseconds."""
        return self._run(self.cache)[1:]


class Jax:
    """JAX's client on the CPU, given the program's text."""

    def __init__(self, program: pathlib.Path, runs: int) -> None:
        self.runs = runs
        device = jax.devices("cpu")[0]
        start = time.perf_counter()
        options = jaxlib.xla_client.CompileOptions()
        devices = jaxlib.xla_client.DeviceList((device,))
        text = re.sub(r"tf\.aliasing_output = \d+ : i32", "", program.read_text())  # neither side gives its inputs away
        self.program = device.client.compile_and_load(text, devices, options)
        self.compile_seconds = time.perf_counter() - start
        arrays = numpy.load(program.with_suffix(".npz"))
        names = sorted((n for n in arrays.files if n.startswith("in_")), key=lambda n: int(n[3:]))
        jax.config.update("jax_enable_x64", True)
        self.inputs = [jax.device_put(arrays[n], device) for n in names]
        self._once()

    def _once(self) -> None:
        results: Any = self.program.execute_sharded(self.inputs)
        jax.block_until_ready(results.disassemble_into_single_device_arrays())

    def round(self) -> tuple[float, float]:
        """Median and fastest milliseconds."""
        times = []
        for _ in range(self.runs):
            start = time.perf_counter()
            self._once()
            times.append(1e3 * (time.perf_counter() - start))
        return statistics.median(times), min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="+", type=pathlib.Path)
    parser.add_argument("--thalweg", default=shutil.which("thalweg") or "thalweg", help="the command line program")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--runs", type=int, default=100, help="runs in a round")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores; JAX {jax.__version__ if jax else 'is not installed'}")
    for program in options.programs:
        engines: dict[str, Any] = {"thalweg": Ours(options.thalweg, program, options.runs)}
        if jax:
            engines["jax"] = Jax(program, options.runs)
        rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in engines}
        for _ in range(options.rounds):
            for name, engine in engines.items():
                rounds[name].append(engine.round())
        print(f"\n{program.name}\n{'':10}{'compile s':>11}{'median ms':>11}{'fastest ms':>12}")
        middle = {name: statistics.median(m for m, _ in each) for name, each in rounds.items()}
        for name, each in rounds.items():
            print(f"{name:10}{engines[name].compile_seconds:11.2f}{middle[name]:11.3f}{min(f for _, f in each):12.3f}")
        if jax:
            print(f"compiled in {engines['thalweg'].compile_seconds / engines['jax'].compile_seconds:.2f} of JAX's time, ", end="")
            print(f"run {middle['jax'] / middle['thalweg']:.2f} times as fast as JAX")


if __name__ == "__main__":
    main()
