"""`torch_xla.utils.serialization`: saving with each tensor as a file of its own, so that large state does not need twice its memory."""

import os
import shutil
from typing import Any

import torch

from torch_xla.core.tensor_trees import map_tensors


class _Reference:
    """Stands for the tensor in file number `number` within the saved structure."""

    def __init__(self, number: int) -> None:
        self.number = number


def _folder(path: str) -> str:
    return path + ".tensors"


def save(data: Any, path: str | os.PathLike[str], master_only: bool = True, global_master: bool = False) -> None:
    """Saves `data` to `path` and its tensors to files in the folder `path`.tensors."""
    path = os.fspath(path)
    folder = _folder(path)
    if os.path.isdir(folder):
        shutil.rmtree(folder)
    os.makedirs(folder)
    count = 0

    def put(tensor: torch.Tensor) -> _Reference:
        nonlocal count
        torch.save(tensor.detach().cpu(), os.path.join(folder, f"tensor_{count}.pt"))
        count += 1
        return _Reference(count - 1)

    torch.save(map_tensors(data, put), path)


def load(path: str | os.PathLike[str]) -> Any:
    """Loads what `save` saved, as CPU tensors. The file may run code when loaded, as any pickle: load only what you trust."""
    path = os.fspath(path)

    def get(value: Any) -> Any:
        if isinstance(value, _Reference):
            return torch.load(os.path.join(_folder(path), f"tensor_{value.number}.pt"), weights_only=True)
        if isinstance(value, dict):
            for key in list(value):
                value[key] = get(value[key])
            return value
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(get(item) for item in value))
        return type(value)(get(item) for item in value) if isinstance(value, (list, tuple, set)) else value

    return get(torch.load(path, weights_only=False))
