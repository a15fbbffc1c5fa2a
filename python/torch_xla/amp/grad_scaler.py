"""Loss scaling that does not wait for the device when the optimizer can skip a step by itself."""

from typing import Any

import torch


class GradScaler(torch.amp.GradScaler):
    """torch.amp.GradScaler for the XLA device. With an optimizer of `torch_xla.amp.syncfree` the decision to skip a step is made on the device;
    with another one the step waits to read it. `use_zero_grad` instead zeroes the gradients of a skipped step, for optimizers that then change
    nothing (plain SGD)."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
        use_zero_grad: bool = False,
    ) -> None:
        super().__init__("xla", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self._use_zero_grad = use_zero_grad

    def _maybe_opt_step(self, optimizer: torch.optim.Optimizer, optimizer_state: dict[str, Any], *args: Any, **kwargs: Any) -> float | None:
        from torch_xla.amp import syncfree

        found_inf = sum(optimizer_state["found_inf_per_device"].values())
        if isinstance(optimizer, syncfree.SyncFree):
            return optimizer.step(*args, **{**kwargs, "found_inf": found_inf})
        if self._use_zero_grad:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        parameter.grad.copy_(torch.where(found_inf > 0, torch.zeros_like(parameter.grad), parameter.grad))
            return optimizer.step(*args, **kwargs)
        return super()._maybe_opt_step(optimizer, optimizer_state, *args, **kwargs)
