"""What the gates look at: the repository's own files, and running a command for each of them."""

import concurrent.futures
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterable

ROOT = pathlib.Path(__file__).resolve().parent.parent
TORCH_FOLDERS = ("aten", "bindings")  # the only folders of src/ that see PyTorch's headers


def files(*patterns: str) -> list[pathlib.Path]:
    """The repository's files that match git's patterns, new ones included and ignored ones not, relative to its root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted({pathlib.Path(name) for name in names if (ROOT / name).exists()})


def folder_of(path: pathlib.Path) -> str:
    """The folder of src/ that a file belongs to, as layers.txt names it."""
    return path.parent.relative_to("src").as_posix()


def sees_torch(path: pathlib.Path) -> bool:
    """True for files of the torch device."""
    return path.parts[0] == "src" and path.parts[1] in TORCH_FOLDERS


def in_parallel(work: Callable[[pathlib.Path], str], paths: Iterable[pathlib.Path]) -> list[str]:
    """Calls `work` for each path on as many threads as there are cores; returns the complaints that are not empty, in order."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [complaint for complaint in pool.map(work, paths) if complaint]


def finish(complaints: list[str], looked_at: int, what: str) -> None:
    """Prints the complaints and ends the program: with 1 when there are any."""
    for complaint in complaints:
        print(complaint)
    print(f"{looked_at} {what}: {len(complaints) or 'no'} complaint{'' if len(complaints) == 1 else 's'}")
    sys.exit(1 if complaints else 0)
