"""`torch_xla.amp`: mixed precision."""

from torch_xla.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from torch_xla.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
