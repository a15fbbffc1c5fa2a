"""Fixtures: a seed for each test, printed when the test fails, and a device without left-overs."""

import os
import pathlib
import random
import subprocess
import sys
import zlib

import hypothesis
import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]

hypothesis.settings.register_profile("thalweg", deadline=None, print_blob=True, suppress_health_check=list(hypothesis.HealthCheck))
hypothesis.settings.load_profile("thalweg")
torch.set_num_threads(2)


@pytest.fixture(autouse=True)
def seed(request: pytest.FixtureRequest) -> int:
    """THALWEG_SEED, or a number of the test's name: printed, so that a failure can be repeated."""
    value = int(os.environ.get("THALWEG_SEED", zlib.crc32(request.node.nodeid.encode())))
    print(f"THALWEG_SEED={value}")
    random.seed(value)
    torch.manual_seed(value)
    return value


@pytest.fixture
def xla():
    """The device; after the test nothing is pending and no debug mode is on."""
    import thalweg
    import torch_xla

    yield torch_xla.device()
    thalweg.set_eager(False)
    thalweg.set_nan_guard(False)
    thalweg.set_memory_limit(0)
    torch_xla.sync(wait=True)


@pytest.fixture
def run_python():
    """Runs Python text in a process of its own; gives (exit code, standard output, standard error)."""

    def run(text: str, *arguments: str, timeout: float = 120, environment: dict[str, str] | None = None) -> tuple[int, str, str]:
        path = os.pathsep.join([*(entry for entry in sys.path if entry), os.environ.get("PYTHONPATH", "")])
        variables = {**os.environ, "PYTHONPATH": path, **(environment or {})}
        done = subprocess.run([sys.executable, "-c", text, *arguments], capture_output=True, text=True, timeout=timeout, env=variables, check=False)
        return done.returncode, done.stdout, done.stderr

    return run
