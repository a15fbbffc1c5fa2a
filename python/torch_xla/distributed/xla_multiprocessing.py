"""`torch_xla.distributed.xla_multiprocessing`, usually `xmp`: one run of a function for each device."""

import os
from collections.abc import Callable
from typing import Any

import torch


def spawn(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int | None = None, join: bool = True, daemon: bool = False, start_method: str = "spawn"
) -> None:
    """Runs `fn(index, *args)` once for each device. There is one device, so it runs in this process; more processes are refused."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if nprocs not in (None, 1) or world > 1:
        asked = nprocs if nprocs not in (None, 1) else world
        raise NotImplementedError(f"{asked} processes can't train together yet; run one, with nprocs=1 and WORLD_SIZE unset or 1")
    if not join:
        raise ValueError("join=False needs processes of their own; nprocs=1 runs in this one")
    fn(0, *args)


class MpModelWrapper:
    """Keeps a model for the processes to come; `to(device)` moves it there."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model

    def to(self, device: Any) -> torch.nn.Module:
        """The model, on `device`."""
        return self._model.to(device)


class MpSerialExecutor:
    """Runs a function in one process after the other, e.g. to download a data set once."""

    def run(self, fn: Callable[[], Any]) -> Any:
        """What `fn()` gives."""
        return fn()
