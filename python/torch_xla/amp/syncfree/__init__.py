"""Optimizers that skip a step on the device when the gradients overflowed, without the host waiting to know."""

from typing import Any

import torch

from torch_xla import _upstream


class SyncFree:
    """Adds `found_inf` to an optimizer's step: where it is not 0, parameters and state keep their values."""

    def step(self, closure: Any = None, found_inf: torch.Tensor | None = None) -> Any:
        """One step. found_inf: a scalar on the device, not 0 when the step is to change nothing."""
        if found_inf is None:
            return super().step(closure)  # type: ignore[misc]
        with torch.no_grad():
            skip = found_inf.reshape(()) > 0
            before = [(tensor, tensor.clone()) for tensor in self._tensors()]
            known = {id(tensor) for tensor, _ in before}
        result = super().step(closure)  # type: ignore[misc]
        with torch.no_grad():
            for tensor, old in before:
                tensor.copy_(torch.where(skip, old, tensor))
            # State that this step made: before the first step it was all zeros.
            for tensor in self._tensors():
                if id(tensor) not in known:
                    tensor.copy_(torch.where(skip, torch.zeros_like(tensor), tensor))
        return result

    def _tensors(self) -> list[torch.Tensor]:
        """The parameters that a step changes, and the state on their device."""
        parameters = [p for group in self.param_groups for p in group["params"] if p.grad is not None]  # type: ignore[attr-defined]
        states = [v for p in parameters for v in self.state.get(p, {}).values()]  # type: ignore[attr-defined]
        return [*parameters, *(v for v in states if isinstance(v, torch.Tensor) and v.is_xla)]


class SGD(SyncFree, torch.optim.SGD):
    """torch.optim.SGD whose step takes `found_inf`. With dampening, momentum starts from zero instead of the first gradient if the first step was skipped."""


class Adam(SyncFree, torch.optim.Adam):
    """torch.optim.Adam whose step takes `found_inf`; its step counts live on the device (capturable=True)."""

    def __init__(self, params: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(params, *args, **{"capturable": True, **kwargs})


class AdamW(SyncFree, torch.optim.AdamW):
    """torch.optim.AdamW whose step takes `found_inf`; its step counts live on the device (capturable=True)."""

    def __init__(self, params: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(params, *args, **{"capturable": True, **kwargs})


__getattr__ = _upstream.missing(__name__)
