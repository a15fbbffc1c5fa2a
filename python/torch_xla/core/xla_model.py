"""`torch_xla.core.xla_model`, usually imported as `xm`: devices, steps, optimizers, printing, saving."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

import torch
from thalweg import _C, device_module, pickling

from torch_xla import _XLAC, _upstream, devices_list, step_scope
from torch_xla.core.collectives import (  # noqa: F401
    REDUCE_AND,
    REDUCE_MAX,
    REDUCE_MIN,
    REDUCE_MUL,
    REDUCE_OR,
    REDUCE_SUM,
    all_gather,
    all_reduce,
    all_to_all,
    broadcast_master_param,
    collective_broadcast,
    collective_permute,
    mesh_reduce,
    optimization_barrier_,
    reduce_scatter,
    rendezvous,
)
from torch_xla.core.rates import RateTracker  # noqa: F401
from torch_xla.core.tensor_trees import ToXlaTensorArena, map_tensors  # noqa: F401

# Devices


def xla_device(n: int | None = None, devkind: str | None = None) -> torch.device:
    """The XLA device; `torch_xla.device()` is the newer spelling."""
    return devices_list.device(n)


def is_xla_tensor(tensor: torch.Tensor) -> bool:
    """Whether `tensor` lives on an XLA device."""
    return tensor.device.type == "xla"


def get_xla_supported_devices(devkind: str | None = None, max_devices: int | None = None) -> list[str] | None:
    """The XLA devices, as ["xla:0"]; None when there is none of kind `devkind` ("CPU", "CUDA" …)."""
    if devkind is not None and devkind.upper() != xla_device_hw(xla_device()):
        return None
    return [str(device) for device in devices_list.devices()][:max_devices]


def xla_real_devices(devices: Sequence[Any] | None = None) -> list[str]:
    """What is behind `devices` (default: all): ["CPU:0"] or ["CUDA:0"]."""
    for device in devices or ():
        device_module._check(device)
    return devices_list.real_devices()


def xla_device_hw(device: Any) -> str:
    """What computes for `device`: "CPU" or "CUDA"."""
    device_module._check(device)
    return devices_list.real_devices()[0].split(":")[0]


def parse_xla_device(device: str) -> tuple[str, int] | None:
    """("CPU", 0) of "CPU:0"; None when `device` does not read so."""
    kind, _, number = device.partition(":")
    return (kind, int(number)) if kind.isupper() and number.isdigit() else None


def xla_replication_devices(local_devices: Sequence[Any] | None = None) -> list[str]:
    """What is behind each replica."""
    return xla_real_devices(local_devices)


def set_replication(device: Any, devices: Sequence[Any]) -> None:
    """Says which devices train together. There is one."""
    device_module._check(device)
    if len(devices) > 1:
        raise ValueError(f"there is one XLA device; asked to replicate over {list(devices)}")


# Ordinals


def get_ordinal(defval: int = 0) -> int:
    """This replica's number among all."""
    return 0


def get_local_ordinal(defval: int = 0) -> int:
    """This replica's number on this machine."""
    return 0


def xrt_world_size(defval: int = 1) -> int:
    """The number of replicas."""
    return 1


def is_master_ordinal(local: bool = True) -> bool:
    """Whether this replica is the first, of this machine or (local=False) of all."""
    return True


def do_on_ordinals(target: Callable[..., Any], data: Sequence[Any] = (), ordinals: Sequence[int] = (0,)) -> Any:
    """Calls `target(*data)`, tensors in it as CPU tensors, on the replicas in `ordinals`."""
    return target(*_maybe_convert_to_cpu(list(data), convert=True)) if 0 in ordinals else None


def master_print(*args: Any, fd: TextIO | None = None, local: bool = False, flush: bool = False) -> None:
    """print() on the first replica only; `fd` is the stream, standard output by default."""
    print(*args, file=fd or sys.stdout, flush=flush)


# Steps


def mark_step(wait: bool = False, reset_scope: bool = True) -> None:
    """Ends a step; `torch_xla.sync()` is the newer spelling."""
    step_scope.sync(wait, reset_scope)


def wait_device_ops(devices: Sequence[Any] = ()) -> None:
    """Waits until everything launched is done. Does not launch what is pending."""
    for device in devices:
        device_module._check(device)
    _C.wait_device_ops()


def unlazy(tensors: Sequence[torch.Tensor]) -> None:
    """Runs what is pending, so that `tensors` have values."""
    _C.sync(True, "unlazy")


def add_step_closure(closure: Callable[..., Any], args: Sequence[Any] = (), run_async: bool = False) -> None:
    """Has `closure(*args)` called when the step has been launched; there reading a tensor does not cut the step. run_async: in a thread of its own."""
    step_scope.add_closure(closure, tuple(args), run_async)


def _run_step_closures() -> None:
    step_scope._run_closures()


def _fetch_gradients(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """All gradients of the optimizer's parameters."""
    return [parameter.grad for group in optimizer.param_groups for parameter in group["params"] if parameter.grad is not None]


def reduce_gradients(optimizer: torch.optim.Optimizer, groups: Sequence[Sequence[int]] | None = None, cctx: Any = None, pin_layout: bool = True) -> None:
    """Averages the gradients over all replicas, in place."""
    all_reduce(REDUCE_SUM, _fetch_gradients(optimizer), groups=groups)


def optimizer_step(
    optimizer: torch.optim.Optimizer,
    barrier: bool = False,
    optimizer_args: dict[str, Any] | None = None,
    groups: Sequence[Sequence[int]] | None = None,
    pin_layout: bool = True,
) -> Any:
    """Averages the gradients, steps the optimizer with `optimizer_args` and gives what it returns. Ends the step only with `barrier`."""
    reduce_gradients(optimizer, groups=groups)
    loss = optimizer.step(**(optimizer_args or {}))
    if barrier:
        mark_step()
    return loss


# Random numbers: the state is one integer, seed + offset * 2**64, so that a seed alone is a state too.


def set_rng_state(seed: int, device: Any = None) -> None:
    """Returns to a state of `get_rng_state`, or starts from a seed. Never runs what is pending."""
    device_module._check(device)
    if not 0 <= int(seed) < 2**128:
        raise ValueError(f"a random state is a seed or what get_rng_state gave; it is {seed}")
    _C.set_rng_state(torch.tensor(list(int(seed).to_bytes(16, "little")), dtype=torch.uint8))


def get_rng_state(device: Any = None) -> int:
    """The state of the random numbers. Never runs what is pending."""
    device_module._check(device)
    return int.from_bytes(bytes(_C.get_rng_state().tolist()), "little")


@contextlib.contextmanager
def fork_rng(device: Any = None, enabled: bool = True) -> Iterator[None]:
    """Context after which the random numbers are where they were before."""
    state = get_rng_state(device)
    try:
        yield
    finally:
        if enabled:
            set_rng_state(state, device)


# Memory, programs


def get_memory_info(device: Any = None) -> dict[str, int]:
    """Bytes: bytes_used, bytes_limit and peak_bytes_used; for older scripts kb_total and kb_free; and what `thalweg.memory_info` tells.

    Used are the bytes of live tensors, on memory of ours or adopted from others. Without a limit the machine's memory is the limit.
    """
    device_module._check(device)
    info = _C.memory_info()
    limit = info["limit"] or _machine_memory()
    used = info["live"] + info["adopted"]
    return {
        **info,
        "bytes_used": used,
        "bytes_limit": limit,
        "peak_bytes_used": info["peak_live"],
        "kb_total": limit // 1024,
        "kb_free": max(limit - used - info["pending"], 0) // 1024,
    }


def _machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def get_stablehlo(tensors: Sequence[torch.Tensor] | None = None) -> str:
    """The pending program that computes `tensors` (default: all that is pending), as StableHLO text."""
    return _C.graph_text(list(tensors or ()))


# Saving, moving


def _maybe_convert_to_cpu(data: Any, convert: bool = True) -> Any:
    """`data` with its device tensors as CPU tensors; `convert=False` changes nothing."""
    return map_tensors(data, lambda tensor: tensor.detach().cpu() if tensor.is_xla else tensor) if convert else data


def save(data: Any, file_or_path: Any, master_only: bool = True, global_master: bool = False) -> None:
    """torch.save() of `data` with its device tensors as CPU tensors, on the first replica only unless `master_only` is false. Tensors that share
    storage still do."""
    with pickling.scope():
        torch.save(map_tensors(data, lambda tensor: pickling.to_cpu(tensor) if tensor.is_xla else tensor), file_or_path)


def send_cpu_data_to_device(datas: Any, device: Any, input_sharding: Any = None) -> Any:
    """`datas` with its CPU tensors moved to `device`."""
    target = device_module._check(device)
    return map_tensors(datas, lambda tensor: tensor.to(target) if tensor.device.type == "cpu" else tensor)


def check_view_sharing(obj: Any) -> None:
    """Raises RuntimeError when two different tensors within `obj` share storage without being the same tensor."""
    seen: dict[int, torch.Tensor] = {}

    def check(tensor: torch.Tensor) -> torch.Tensor:
        number = _C.tensor_id(tensor) if tensor.is_xla else tensor.untyped_storage()._cdata
        if seen.setdefault(number, tensor) is not tensor:
            raise RuntimeError(f"two tensors share storage: {tuple(seen[number].shape)} and {tuple(tensor.shape)}")
        return tensor

    map_tensors(obj, check)


def set_mat_mul_precision(precision: str = "default") -> None:
    """How exact products are: every setting gives at least the operands' own precision."""
    _XLAC._xla_set_mat_mul_precision(precision)


def get_mat_mul_precision() -> str:
    """The setting of `set_mat_mul_precision`."""
    return _XLAC._xla_get_mat_mul_precision()


__getattr__ = _upstream.missing(__name__)
