"""Gate: every header compiles alone. Those of the torch device are given PyTorch's headers, precompiled, when a build of the device exists."""

import json
import pathlib
import shlex
import subprocess

import tree

PLAIN = ["c++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Isrc", "-isystem/usr/lib/llvm-19/include"]


def torch_command() -> list[str] | None:
    """The compiler call of some source of the torch device, without its source, output and cache; None when it was never configured."""
    database = tree.ROOT / "build" / "torch-2.15" / "compile_commands.json"
    if not database.exists():
        return None
    for entry in json.loads(database.read_text()):
        if "/src/aten/" in entry["file"]:
            words = shlex.split(entry["command"])
            words = words[next(i for i, word in enumerate(words) if word.endswith(("c++", "g++"))) :]
            words = words[: words.index("-o")]
            return [word if word != entry["file"] else "" for word in words]
    return None


def main() -> None:
    """Compiles each header."""
    torch = torch_command()
    headers = [path for path in tree.files("src/*.h") if path.name != "torch_headers.h"]
    skipped = [path for path in headers if tree.sees_torch(path) and torch is None]

    def compile_alone(path: pathlib.Path) -> str:
        base = PLAIN if not tree.sees_torch(path) else [*(torch or []), "-fsyntax-only"]
        # A file that does nothing but include it: compiling the header itself would warn of its #pragma once.
        text = f'#include "{path.relative_to("src").as_posix()}"\n'
        result = subprocess.run([*base, "-x", "c++", "-"], input=text, cwd=tree.ROOT, capture_output=True, text=True, check=False)
        return f"{path} does not compile alone:\n{result.stderr}" if result.returncode else ""

    if skipped:
        print(f"{len(skipped)} headers of the torch device left out: no build of it")
    todo = [path for path in headers if path not in skipped]
    tree.finish(tree.in_parallel(compile_alone, todo), len(todo), "headers")


if __name__ == "__main__":
    main()
