"""What the import refuses, and what it says then."""

import pytest
from conftest import ROOT
from thalweg import versions


@pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13)])
def test_python_supported(version: tuple[int, int]) -> None:
    assert versions.python_message(version) is None


@pytest.mark.parametrize("version", [(3, 10), (3, 14)])
def test_python_refused(version: tuple[int, int]) -> None:
    message = versions.python_message(version)
    assert message is not None
    assert f"{version[0]}.{version[1]}" in message and "3.11 to 3.13" in message and "venv" in message


@pytest.mark.parametrize("version", ["2.11.0", "2.12.1+cpu", "2.15.0", "2.15.0a0+git1234"])
def test_torch_supported(version: str) -> None:
    assert versions.torch_message(version) is None


@pytest.mark.parametrize(("version", "wanted"), [("2.10.0", "2.11"), ("2.16.0+cu130", "2.15"), ("1.13.1", "2.11"), ("3.0.0", "2.15")])
def test_torch_refused(version: str, wanted: str) -> None:
    message = versions.torch_message(version)
    assert message is not None
    assert version in message and "2.11 to 2.15" in message and f"torch=={wanted}.*" in message


def test_import_names_both_versions_of_a_wrong_torch(run_python) -> None:
    code, _, errors = run_python("import torch; torch.__version__ = '2.9.1'; import torch_xla")
    assert code == 1
    assert "ImportError" in errors and "2.9.1" in errors and "2.11 to 2.15" in errors and "pip install" in errors


def test_import_refuses_beside_another_extension(run_python, tmp_path) -> None:
    (tmp_path / "_XLAC.py").write_text("")
    code, _, errors = run_python(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import torch_xla")
    assert code == 1
    assert "another torch_xla is installed" in errors and "pip uninstall torch_xla" in errors


def test_import_refuses_beside_another_distribution(run_python, tmp_path) -> None:
    metadata = tmp_path / "torch_xla-2.9.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_xla\nVersion: 2.9.0\nSummary: XLA bridge for PyTorch\n")
    code, _, errors = run_python(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import thalweg")
    assert code == 1
    assert "distribution torch_xla 2.9.0" in errors


def test_own_distribution_is_accepted(tmp_path, monkeypatch) -> None:
    metadata = tmp_path / "torch_xla-2.15.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_xla\nVersion: 2.15.0\nSummary: The torch_xla interface of Thalweg\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert versions.rival_message() is None


def test_another_loaded_package_is_refused(run_python, tmp_path) -> None:
    (tmp_path / "torch_xla").mkdir()
    (tmp_path / "torch_xla" / "__init__.py").write_text("")
    code, _, errors = run_python(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import torch_xla; sys.path.pop(0); import thalweg")
    assert code == 1
    assert "already imported" in errors


def test_missing_extension_says_what_to_do(run_python) -> None:
    code, _, errors = run_python("import sys; sys.modules['thalweg._C'] = None; import torch_xla")
    assert code == 1
    assert "extension module can't be loaded" in errors and "tools/dev_build" in errors


def test_import_is_inert(run_python) -> None:
    text = (
        "import torch, threading, os\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "import torch_xla\n"
        "assert not torch.cuda.is_initialized()\n"
        "maps = open('/proc/self/maps').read()\n"
        "assert 'clang' not in maps and 'LLVM' not in maps, 'a compiler was loaded'\n"
        "print(len(os.listdir('/proc/self/task')) - before, threading.active_count())\n"
    )
    code, output, errors = run_python(text)
    assert code == 0, errors
    assert output.split() == ["0", "1"]


def test_typed_packages() -> None:
    assert (ROOT / "python/thalweg/py.typed").exists() and (ROOT / "python/torch_xla/py.typed").exists()
