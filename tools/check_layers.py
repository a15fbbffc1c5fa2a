"""Gate: a folder of src/ includes only itself and what layers.txt allows it, and PyTorch's headers stay in the torch device."""

import re

import tree

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
TORCH = re.compile(r"^(torch|ATen|c10|pybind11|caffe2)/|^Python\.h$")


def read_layers() -> dict[str, set[str]]:
    """Folder → folders it may include. Each may only name folders above it, so that there is no way round."""
    layers: dict[str, set[str]] = {}
    for line in (tree.ROOT / "layers.txt").read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        folder, _, allowed = line.partition(":")
        upward = set(allowed.split()) - set(layers)
        if upward:
            raise SystemExit(f"layers.txt: {folder} names {', '.join(sorted(upward))}, which is not above it")
        layers[folder.strip()] = set(allowed.split())
    return layers


def main() -> None:
    """Checks every include of src/."""
    layers = read_layers()
    complaints = []
    paths = tree.files("src/*.h", "src/*.cpp")
    for path in paths:
        folder = tree.folder_of(path)
        if folder not in layers:
            complaints.append(f"{path}: the folder {folder} is not in layers.txt")
            continue
        for number, line in enumerate((tree.ROOT / path).read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, name = match.groups()
            if quote == "<":
                if TORCH.match(name) and not tree.sees_torch(path):
                    complaints.append(f"{path}:{number}: <{name}> belongs to the torch device only")
                continue
            target = name.rpartition("/")[0]
            if not (tree.ROOT / "src" / name).exists():
                complaints.append(f'{path}:{number}: "{name}" is not a path from src/')
            elif target != folder and target not in layers[folder]:
                complaints.append(f'{path}:{number}: {folder} may not include {target} ("{name}")')
    tree.finish(complaints, len(paths), "files for their includes")


if __name__ == "__main__":
    main()
