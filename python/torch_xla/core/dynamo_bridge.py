"""`torch.compile(backend="openxla")`: runs the captured program on the XLA device."""

from collections.abc import Callable
from typing import Any

import torch

from torch_xla import devices_list


def extract_compiled_graph(model: torch.fx.GraphModule, arguments: Any) -> Callable[..., Any]:
    """A function that runs `model`, which torch.compile captured for `arguments`, on the XLA device.

    The captured operations are traced there, so that programs are compiled as for any step and the caller's own operations can join them. Arguments on
    other devices are copied over, results copied back, and what the program writes into such arguments is written back too.
    """
    device = devices_list.device()

    def run(*args: Any) -> Any:
        elsewhere = {tensor.device for tensor in args if isinstance(tensor, torch.Tensor) and not tensor.is_xla}
        if not elsewhere:
            return model(*args)
        moved = [tensor.to(device) if isinstance(tensor, torch.Tensor) else tensor for tensor in args]
        versions = [tensor._version if isinstance(tensor, torch.Tensor) else 0 for tensor in moved]
        results = model(*moved)
        for argument, copy, version in zip(args, moved, versions, strict=True):
            if isinstance(argument, torch.Tensor) and argument is not copy and copy._version != version:
                argument.copy_(copy)
        if len(elsewhere) > 1 or any(isinstance(tensor, torch.Tensor) and tensor.is_xla for tensor in args):
            return results
        home = elsewhere.pop()
        return torch.utils._pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to(home), results)

    return run
