"""What this package needs of its surroundings: versions of Python and PyTorch, and no second `torch_xla`."""

import importlib.metadata
import importlib.util
import pathlib
import sys

OLDEST_TORCH = (2, 11)
NEWEST_TORCH = (2, 15)
OLDEST_PYTHON = (3, 11)
NEWEST_PYTHON = (3, 13)
# The metadata of the `torch_xla` distribution that comes with this package says this word; another project's does not.
MARK = "thalweg"


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)


def python_message(version: tuple[int, int]) -> str | None:
    """Why Python `version` does not do, or None when it does."""
    if OLDEST_PYTHON <= version <= NEWEST_PYTHON:
        return None
    return (
        f"Thalweg runs on Python {_dotted(OLDEST_PYTHON)} to {_dotted(NEWEST_PYTHON)}; this is Python {_dotted(version)}. "
        f"Make an environment with a supported one, e.g. `python{_dotted(OLDEST_PYTHON)} -m venv .venv`, and install Thalweg there."
    )


def torch_message(installed: str) -> str | None:
    """Why PyTorch `installed` (its version string) does not do, or None when it does."""
    parts = installed.split("+")[0].split(".")
    try:
        version = (int(parts[0]), int(parts[1]))
    except (ValueError, IndexError):
        return f"Thalweg works with PyTorch {_dotted(OLDEST_TORCH)} to {_dotted(NEWEST_TORCH)}; the installed one calls itself {installed!r}."
    if OLDEST_TORCH <= version <= NEWEST_TORCH:
        return None
    nearest = OLDEST_TORCH if version < OLDEST_TORCH else NEWEST_TORCH
    return (
        f"Thalweg works with PyTorch {_dotted(OLDEST_TORCH)} to {_dotted(NEWEST_TORCH)}; installed is PyTorch {installed}. "
        f"Run `pip install 'torch=={_dotted(nearest)}.*'`, then install Thalweg again, since it is built against the PyTorch it runs with."
    )


def rival_message(own_folder: pathlib.Path | None = None) -> str | None:
    """Describes another `torch_xla` in this environment, or None. `own_folder` holds our `torch_xla` (default: the folder beside this package)."""
    own = (own_folder or pathlib.Path(__file__).resolve().parent.parent / "torch_xla").resolve()
    remedy = "Both answer to `import torch_xla`, so one must go: `pip uninstall torch_xla`, then install Thalweg again."
    loaded = getattr(sys.modules.get("torch_xla"), "__file__", None)
    if loaded and pathlib.Path(loaded).resolve().parent != own:
        return f"another torch_xla is already imported, from {loaded}. {remedy}"
    # PyTorch/XLA's own extension lies beside its package.
    spec = importlib.util.find_spec("_XLAC") if "_XLAC" not in sys.modules else sys.modules["_XLAC"].__spec__
    if spec is not None:
        return f"another torch_xla is installed: its extension module is {spec.origin}. {remedy}"
    for distribution in importlib.metadata.distributions(name="torch_xla"):
        metadata = distribution.metadata
        if MARK not in " ".join(str(metadata[key]) for key in metadata).lower():
            return f"another torch_xla is installed: distribution torch_xla {distribution.version}. {remedy}"
    return None


def extension_message(error: ImportError) -> str:
    """What to say when the C++ extension can't be imported for the reason `error`."""
    import torch

    return (
        f"Thalweg's extension module can't be loaded with PyTorch {torch.__version__} on Python {_dotted(tuple(sys.version_info[:2]))}: {error}. "
        "It is built against the PyTorch it runs with; install Thalweg again in this environment: `pip install --force-reinstall --no-deps thalweg`, "
        "or run `tools/dev_build` in a source tree."
    )


def check() -> None:
    """Raises ImportError when Python, PyTorch or a second `torch_xla` rule this package out."""
    import torch

    for message in (python_message((sys.version_info[0], sys.version_info[1])), torch_message(torch.__version__), rival_message()):
        if message:
            raise ImportError(message)
