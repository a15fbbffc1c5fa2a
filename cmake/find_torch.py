"""Prints what a build has to know of this Python and its torch, one KEY=VALUE a line, without importing torch."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import sysconfig


def facts() -> dict[str, str]:
    """Version and folder of torch, include folder and extension suffix of Python. Exits with a message when there is no torch."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        if "PYTHONPATH" in os.environ and not sys.flags.ignore_environment:
            # pip builds behind a PYTHONPATH that hides the environment which it installs into: that environment's torch is the one that counts.
            text = subprocess.run([sys.executable, "-E", __file__], capture_output=True, text=True, check=False)
            if text.returncode:
                raise SystemExit(text.stderr.strip())
            return dict(line.split("=", 1) for line in text.stdout.splitlines())
        raise SystemExit(f"no torch in {sys.executable}: install it there first, then build with pip install --no-build-isolation")
    folder = pathlib.Path(spec.submodule_search_locations[0])
    match = re.search(r"__version__ = ['\"]([^'\"]+)", (folder / "version.py").read_text())
    if match is None:
        raise SystemExit(f"no version in {folder / 'version.py'}")
    suffix = str(sysconfig.get_config_var("EXT_SUFFIX"))
    return {"VERSION": match.group(1), "FOLDER": str(folder), "PYTHON_INCLUDE": sysconfig.get_path("include"), "SUFFIX": suffix}


if __name__ == "__main__":
    for key, value in facts().items():
        print(f"{key}={value}")
