"""`torch_xla.utils.checkpoint`: activation checkpointing. Backward's recomputation is never merged with forward's, so core's own does it."""

from collections.abc import Callable
from typing import Any

import torch.utils.checkpoint


def checkpoint(function: Callable[..., Any], *args: Any, use_reentrant: bool = True, **kwargs: Any) -> Any:
    """`function(*args)` without keeping what backward needs; it is computed again then. Random numbers are the same both times."""
    return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=use_reentrant, **kwargs)
