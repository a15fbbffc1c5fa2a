"""`torch_xla.experimental.eager`: the eager debug mode by its module's name."""

from torch_xla.experimental import compile, eager_mode, eager_mode_context, is_eager_mode

__all__ = ["compile", "eager_mode", "eager_mode_context", "is_eager_mode"]
