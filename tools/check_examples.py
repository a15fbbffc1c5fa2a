"""Gate: every file of examples/ and every Python block of README.md and docs/ runs.

An example says how it is run quickly in a line of its own: `# quick: ARGUMENTS` (none when there is no such line). Files without a main program are left out.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import time

import tree

LIMIT_SECONDS = 600


def run(name: str, command: list[str], folder: str) -> str:
    """Runs one program in an empty folder; returns the complaint when it fails."""
    started = time.monotonic()
    try:
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return f"{name} did not end within {LIMIT_SECONDS} seconds"
    print(f"{name}: {'failed' if result.returncode else 'ran'} in {time.monotonic() - started:.1f} s", flush=True)
    return f"{name} ended with {result.returncode}:\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}" if result.returncode else ""


def main() -> None:
    """Runs them all, one after another."""
    complaints = []
    programs: list[tuple[str, list[str]]] = []
    for path in tree.files("examples/*.py"):
        text = (tree.ROOT / path).read_text()
        if "__main__" not in text:
            continue
        quick = re.search(r"^# quick:(.*)$", text, re.MULTILINE)
        programs.append((str(path), [str(tree.ROOT / path), *(quick.group(1).split() if quick else [])]))
    with tempfile.TemporaryDirectory() as folder:
        for page in tree.files("README.md", "docs/*.md"):
            blocks = re.findall(r"^```python\n(.*?)^```", (tree.ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
            for number, block in enumerate(blocks, 1):
                file = pathlib.Path(folder) / f"{page.stem}_{number}.py"
                file.write_text(block)
                programs.append((f"{page}, Python block {number}", [str(file)]))
        for name, command in programs:
            complaints.append(run(name, [sys.executable, *command], folder))
    tree.finish([complaint for complaint in complaints if complaint], len(programs), "examples")


if __name__ == "__main__":
    main()
