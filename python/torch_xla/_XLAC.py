"""The private names of PyTorch/XLA's extension module that other libraries read."""

from typing import Any

import torch
from thalweg import _C, device_module

from torch_xla import _upstream, devices_list


def _xla_get_tensor_id(tensor: torch.Tensor) -> int:
    """A number that tensors share exactly when they share storage."""
    return _C.tensor_id(tensor)


def _xla_get_default_device() -> str:
    return str(devices_list.device())


def _xla_get_default_device_ordinal() -> int:
    return 0


def _xla_get_devices() -> list[str]:
    return [str(device) for device in devices_list.devices()]


def _xla_get_all_devices() -> list[str]:
    return devices_list.real_devices()


def _xla_real_devices(devices: list[str] | None = None) -> list[str]:
    return devices_list.real_devices()


def _xla_num_devices() -> int:
    return devices_list.device_count()


def _init_computation_client() -> None:
    """Nothing to start: the device is ready once imported."""


def _xla_runtime_is_initialized() -> bool:
    return True


def _xla_sync_multi(tensors: list[torch.Tensor], devices: list[str], wait: bool = True, sync_xla_data: bool = True) -> None:
    _C.sync(wait, "sync")


def _xla_sync_live_tensors(device: str = "", devices: list[str] | None = None, wait: bool = True) -> None:
    _C.sync(wait, "sync")


def _xla_step_marker(device: str = "", devices: list[str] | None = None, wait: bool = False, reset_scope: bool = True) -> None:
    _C.sync(wait, "sync")


def _xla_wait_device_ops(devices: list[str] | None = None) -> None:
    _C.wait_device_ops()


def _get_xla_tensors_text(tensors: list[torch.Tensor]) -> str:
    """The pending program that computes `tensors`, as StableHLO text (PyTorch/XLA prints its own form)."""
    return _C.graph_text(list(tensors))


_get_xla_tensors_hlo = _get_xla_tensors_text


def _get_stablehlo(tensors: list[torch.Tensor], device: str = "", devices: list[str] | None = None, with_debug_info: bool = False) -> str:
    return _C.graph_text(list(tensors))


def _xla_set_rng_seed(seed: int, device: str = "") -> None:
    device_module.manual_seed(seed)


def _xla_metric_names() -> list[str]:
    from torch_xla.debug import metrics

    return metrics.metric_names()


def _xla_counter_names() -> list[str]:
    from torch_xla.debug import metrics

    return metrics.counter_names()


def _xla_counter_value(name: str) -> int | None:
    from torch_xla.debug import metrics

    return metrics.counter_value(name)


def _xla_metric_data(name: str) -> Any:
    from torch_xla.debug import metrics

    return metrics.metric_data(name)


def _xla_metrics_report() -> str:
    from torch_xla.debug import metrics

    return metrics.metrics_report()


def _clear_xla_metrics() -> None:
    _C.clear_metrics()


_clear_xla_counters = _clear_xla_metrics

_precision = ["default"]


def _xla_set_mat_mul_precision(precision: str) -> None:
    """Products are computed in their operands' precision, which is what every setting asks for at least."""
    if precision not in ("default", "high", "highest"):
        raise ValueError(f"a precision is default, high or highest; it is {precision!r}")
    _precision[0] = precision


def _xla_get_mat_mul_precision() -> str:
    return _precision[0]


__getattr__ = _upstream.missing(__name__)
