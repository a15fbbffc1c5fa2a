"""The `torch_xla` API over Thalweg's device: `import torch_xla` makes tensors on device `xla` work.

Import it before the process's first `backward()`: PyTorch's autograd counts the devices then, once.
"""

import thalweg  # registers the device, or says why it can't
import torch
from thalweg import explain

from torch_xla import _upstream

_upstream.install()

# PyTorch/XLA numbers its releases as PyTorch's; libraries compare it.
__version__ = torch.__version__.split("+")[0]

from torch_xla import _XLAC, runtime  # noqa: E402
from torch_xla.core import xla_model  # noqa: E402
from torch_xla.devices_list import device, device_count, devices, real_devices  # noqa: E402
from torch_xla.step_scope import compile, launch, manual_seed, step, sync  # noqa: E402

__all__ = [
    "__version__",
    "_XLAC",
    "compile",
    "device",
    "device_count",
    "devices",
    "explain",
    "launch",
    "manual_seed",
    "real_devices",
    "runtime",
    "step",
    "sync",
    "thalweg",
    "xla_model",
]

__getattr__ = _upstream.missing(__name__)
