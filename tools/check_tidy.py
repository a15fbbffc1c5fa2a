"""Gate: the allow-list of .clang-tidy over the torch-free sources. Verdicts are kept in .cache/tidy by content, so only what changed is looked at again."""

import hashlib
import os
import pathlib
import re
import subprocess

import tree

CACHE = tree.ROOT / ".cache" / "tidy"
FLAGS = ["-std=c++20", "-Isrc", "-I.", "-Wno-everything", "-isystem/usr/lib/llvm-19/include"]
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def content_key(path: pathlib.Path) -> str:
    """A digest of the file and of everything of ours that it includes, directly or not."""
    seen: dict[pathlib.Path, bytes] = {}
    todo = [path]
    while todo:
        current = todo.pop()
        if current in seen or not (tree.ROOT / current).exists():
            continue
        seen[current] = (tree.ROOT / current).read_bytes()
        todo += [pathlib.Path("src") / name for name in INCLUDE.findall(seen[current].decode())]
    digest = hashlib.sha256((tree.ROOT / ".clang-tidy").read_bytes() + " ".join(FLAGS).encode())
    for name in sorted(seen):
        digest.update(str(name).encode() + b"\0" + seen[name])
    return digest.hexdigest()


def look_at(path: pathlib.Path) -> str:
    """Runs clang-tidy on one source, unless the same content passed before."""
    passed = CACHE / content_key(path)
    if passed.exists():
        return ""
    command = ["clang-tidy-19", "--quiet", str(path), "--", *FLAGS]
    result = subprocess.run(command, cwd=tree.ROOT, capture_output=True, text=True, check=False)
    if result.returncode:
        return re.sub(re.escape(str(tree.ROOT)) + "/", "", result.stdout + ("" if result.stdout.strip() else result.stderr)).strip()
    passed.touch()
    return ""


def main() -> None:
    """Looks at all torch-free sources."""
    CACHE.mkdir(parents=True, exist_ok=True)
    month_ago = CACHE.stat().st_mtime - 30 * 86400
    for old in CACHE.iterdir():
        if old.stat().st_mtime < month_ago:
            os.unlink(old)
    paths = [path for path in tree.files("src/*.cpp") if not tree.sees_torch(path)]
    tree.finish(tree.in_parallel(look_at, paths), len(paths), "sources for clang-tidy")


if __name__ == "__main__":
    main()
