"""Collective operations of a world of one device: each is what its definition gives for one participant."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

_Data = TypeVar("_Data")

REDUCE_SUM = "sum"
REDUCE_MUL = "mul"
REDUCE_AND = "and"
REDUCE_OR = "or"
REDUCE_MIN = "min"
REDUCE_MAX = "max"
_REDUCTIONS = (REDUCE_SUM, REDUCE_MUL, REDUCE_AND, REDUCE_OR, REDUCE_MIN, REDUCE_MAX)


def _check_groups(groups: Sequence[Sequence[int]] | None) -> None:
    if groups and any(list(group) != [0] for group in groups):
        raise ValueError(f"groups name replicas that do not exist: {groups}; there is one, number 0")


def _check_reduction(reduce_type: str) -> None:
    if reduce_type not in _REDUCTIONS:
        raise ValueError(f"a reduction is one of {', '.join(_REDUCTIONS)}; it is {reduce_type!r}")


def all_reduce(
    reduce_type: str,
    inputs: torch.Tensor | list[torch.Tensor],
    scale: float = 1.0,
    groups: Sequence[Sequence[int]] | None = None,
    cctx: Any = None,
    pin_layout: bool = True,
) -> Any:
    """Reduces over all replicas and multiplies by `scale`. A tensor gives a new one; a list is changed in place."""
    _check_reduction(reduce_type)
    _check_groups(groups)
    if isinstance(inputs, torch.Tensor):
        return inputs * scale if scale != 1.0 else inputs.clone()
    if scale != 1.0:
        for tensor in inputs:
            tensor.mul_(scale)
    return inputs


def all_gather(
    value: torch.Tensor, dim: int = 0, groups: Sequence[Sequence[int]] | None = None, output: torch.Tensor | None = None, pin_layout: bool = True
) -> torch.Tensor:
    """All replicas' values, one after the other in dimension `dim`; with one replica its value. `output` takes the result if given."""
    _check_groups(groups)
    if not -value.dim() <= dim < max(value.dim(), 1):
        raise IndexError(f"dimension {dim} is out of range for a value of {value.dim()} dimensions")
    return value.clone() if output is None else output.copy_(value)


def all_to_all(
    value: torch.Tensor,
    split_dimension: int,
    concat_dimension: int,
    split_count: int,
    groups: Sequence[Sequence[int]] | None = None,
    pin_layout: bool = True,
) -> torch.Tensor:
    """Sends each replica its part of `value` and joins what comes; with one replica its value."""
    _check_groups(groups)
    if split_count != 1:
        raise ValueError(f"split_count must be the number of replicas, 1; it is {split_count}")
    return value.clone()


def reduce_scatter(
    reduce_type: str,
    input: torch.Tensor | list[torch.Tensor],
    scale: float,
    scatter_dim: int,
    shard_count: int,
    groups: Sequence[Sequence[int]] | None = None,
    output: Any = None,
    pin_layout: bool = True,
    channel_id: int | None = None,
    use_global_device_ids: bool | None = None,
) -> Any:
    """Reduces over all replicas, and keeps this replica's part; with one replica the scaled value."""
    if shard_count != 1:
        raise ValueError(f"shard_count must be the number of replicas, 1; it is {shard_count}")
    results = [all_reduce(reduce_type, tensor, scale, groups) for tensor in ([input] if isinstance(input, torch.Tensor) else input)]
    if output is not None:
        for target, result in zip([output] if isinstance(output, torch.Tensor) else output, results, strict=True):
            target.copy_(result)
        return output
    return results[0] if isinstance(input, torch.Tensor) else results


def collective_permute(value: torch.Tensor, pairs: Sequence[Sequence[int]]) -> torch.Tensor:
    """What the replica that sends to this one in `pairs` holds, or zeros when none does."""
    if any(source != 0 or target != 0 for source, target in pairs):
        raise ValueError(f"pairs name replicas that do not exist: {pairs}; there is one, number 0")
    return value.clone() if pairs else torch.zeros_like(value)


def collective_broadcast(tensors: list[torch.Tensor], root_ordinal: int = 0, groups: Sequence[Sequence[int]] | None = None, pin_layout: bool = True) -> None:
    """Gives all replicas the root's tensors, in place; the root is the only replica."""
    _check_groups(groups)
    if root_ordinal != 0:
        raise ValueError(f"root_ordinal must be 0, the only replica; it is {root_ordinal}")


def broadcast_master_param(model: torch.nn.Module) -> None:
    """Gives all replicas the first one's parameters and buffers."""
    collective_broadcast([*model.parameters(), *model.buffers()])


def rendezvous(tag: str, payload: bytes = b"", replicas: Sequence[int] = ()) -> list[bytes]:
    """Waits for all replicas to come to `tag`; gives their payloads by ordinal."""
    return [payload]


def mesh_reduce(tag: str, data: _Data, reduce_fn: Callable[[list[Any]], Any]) -> Any:
    """`reduce_fn` of the list of all replicas' `data` (tensors as CPU tensors)."""
    from torch_xla.core.xla_model import _maybe_convert_to_cpu

    return reduce_fn([_maybe_convert_to_cpu(data)])


def optimization_barrier_(tensors: list[torch.Tensor]) -> None:
    """Keeps the compiler from merging what makes `tensors` with what uses them. Forward and backward are never merged here, so there is nothing to do."""


@contextlib.contextmanager
def all_reduce_token_scope() -> Any:
    """Orders the collectives inside; with one replica they are."""
    yield
