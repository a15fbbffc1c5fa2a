"""Gate: C++ is formatted by clang-format 19, Python by ruff. `--fix` formats (only the files named after it, when there are any)."""

import pathlib
import subprocess
import sys

import tree


def main() -> None:
    """Checks or fixes the formatting."""
    fix = "--fix" in sys.argv[1:]
    named = [pathlib.Path(name).resolve().relative_to(tree.ROOT) for name in sys.argv[1:] if not name.startswith("--")]
    paths = named or tree.files("*.h", "*.cpp", "*.py", "tools/setup", "tools/check")

    def check(path: pathlib.Path) -> str:
        if path.suffix in (".h", ".cpp"):
            command = ["clang-format-19", "-i" if fix else "--dry-run", "-Werror", str(path)]
        else:
            command = [sys.executable, "-m", "ruff", "format", "--quiet", *([] if fix else ["--check"]), str(path)]
        result = subprocess.run(command, cwd=tree.ROOT, capture_output=True, text=True, check=False)
        return f"{path} is not formatted (tools/check_format.py --fix {path})" if result.returncode else ""

    tree.finish(tree.in_parallel(check, paths), len(paths), "files for their formatting")


if __name__ == "__main__":
    main()
