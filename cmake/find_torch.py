"""Prints what CMake has to know of a Python and its torch, one KEY=VALUE a line, without importing torch."""

import importlib.util
import pathlib
import re
import sysconfig

spec = importlib.util.find_spec("torch")
if spec is None or not spec.submodule_search_locations:
    raise SystemExit("no torch in this Python")
folder = pathlib.Path(spec.submodule_search_locations[0])
match = re.search(r"__version__ = ['\"]([^'\"]+)", (folder / "version.py").read_text())
if match is None:
    raise SystemExit(f"no version in {folder / 'version.py'}")
print(f"VERSION={match.group(1)}")
print(f"FOLDER={folder}")
print(f"PYTHON_INCLUDE={sysconfig.get_path('include')}")
print(f"SUFFIX={sysconfig.get_config_var('EXT_SUFFIX')}")
