"""Nested lists, tuples, dicts and objects: doing something to every tensor in them."""

from collections.abc import Callable, Mapping
from typing import Any

import torch


def map_tensors(tree: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    """`tree` with `change` done to each tensor in its lists, tuples, named tuples, sets and mappings, which keep their classes. The same tensor is
    changed once. Other objects are returned as they are."""
    done: dict[int, tuple[torch.Tensor, Any]] = {}

    def walk(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if id(value) not in done:
                done[id(value)] = (value, change(value))
            return done[id(value)][1]
        if isinstance(value, Mapping):
            items = {walk(key): walk(item) for key, item in value.items()}
            if type(value) is dict:
                return items
            made = value.copy() if hasattr(value, "copy") else None  # keeps default factories and attributes such as a state_dict's _metadata
            if made is None:
                return type(value)(items)  # type: ignore[call-arg]
            made.clear()
            made.update(items)
            if hasattr(value, "_metadata"):
                made._metadata = value._metadata
            return made
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(walk(item) for item in value))
        if isinstance(value, (list, tuple, set)):
            return type(value)(walk(item) for item in value)
        return value

    return walk(tree)


class ToXlaTensorArena:
    """Converts many values at once: `convert_fn` gets the list of all that `select_fn` picks and gives their replacements."""

    def __init__(self, convert_fn: Callable[[list[Any]], list[Any]], select_fn: Callable[[Any], bool]) -> None:
        self._convert, self._select = convert_fn, select_fn

    def transform(self, inputs: Any) -> Any:
        """`inputs` with every picked value replaced."""
        picked: list[torch.Tensor] = []

        def collect(tensor: torch.Tensor) -> torch.Tensor:
            if self._select(tensor):
                picked.append(tensor)
            return tensor

        map_tensors(inputs, collect)
        replaced = {id(old): new for old, new in zip(picked, self._convert(picked), strict=True)}
        return map_tensors(inputs, lambda tensor: replaced.get(id(tensor), tensor))
