"""Changes to PyTorch's own Python, all of them: what core says about device `xla` that does not hold for this one.

Each patch knows how to tell that it is needed; one that core no longer needs is skipped (and a test asks for its removal).
"""

import contextlib
import dataclasses
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.optim.swa_utils
import torch.serialization
import torch.utils._foreach_utils

from thalweg import _C, device_module, dlpack, pickling

# torch.optim hides its submodules.
_optimizer: Any = sys.modules["torch.optim.optimizer"]


@dataclasses.dataclass(frozen=True)
class Patch:
    """One change of core's Python."""

    name: str
    why: str
    needed: Callable[[], bool]
    """Asked before `apply`: whether core lacks what the patch brings."""
    apply: Callable[[], None]


PATCHES: list[Patch] = []
# Names of the patches that were needed and are in place, and of those that were not needed.
applied: list[str] = []
skipped: list[str] = []


def _patch(name: str, why: str, needed: Callable[[], bool]) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def add(function: Callable[[], None]) -> Callable[[], None]:
        PATCHES.append(Patch(name, why, needed, function))
        return function

    return add


def apply() -> None:
    """Applies every patch that is needed, once a process."""
    if applied or skipped:
        return
    for patch in PATCHES:
        if patch.needed():
            patch.apply()
            applied.append(patch.name)
        else:
            skipped.append(patch.name)


def _rebind(name: str, old: Any, new: Any) -> None:
    """Replaces `old` by `new` under `name` in every loaded module of torch, since core imports such functions by value."""
    for module_name, module in list(sys.modules.items()):
        if (module_name + ".").startswith("torch.") and getattr(module, "__dict__", {}).get(name) is old:
            setattr(module, name, new)


@_patch("device module", "activation checkpoints, fork_rng and others look for torch.xla", lambda: not hasattr(torch, "xla"))
def _device_module() -> None:
    torch._register_device_module("xla", device_module)


def _restores_xla() -> bool:
    try:
        torch.serialization.default_restore_location(torch.UntypedStorage(0), "xla:0")
    except RuntimeError:
        return False
    return True


def _storage_tag(storage: Any) -> str | None:
    return "xla:0" if getattr(storage, "device", torch.device("cpu")).type == "xla" else None


def _restore_storage(storage: Any, location: str) -> Any:
    if not location.startswith("xla"):
        return None
    device = device_module._check(location)
    return torch.empty(storage.nbytes(), dtype=torch.uint8, device=device).untyped_storage().copy_(storage, False)  # UntypedStorage refuses xla


@_patch("serialization", "torch.load does not know the location xla", lambda: not _restores_xla())
def _serialization() -> None:
    # A priority of its own: equal ones would be ordered by comparing functions.
    priority = max(entry[0] for entry in torch.serialization._package_registry) + 1
    torch.serialization.register_package(priority, _storage_tag, _restore_storage)


def _adding_xla(function: Callable[..., list[str]]) -> Callable[..., list[str]]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> list[str]:
        devices = function(*args, **kwargs)
        return devices if "xla" in devices else [*devices, "xla"]

    return wrapper


@_patch(
    "foreach devices",
    "optimizers and clip_grad_norm_ take the list-wise path only on listed devices",
    lambda: "xla" not in torch.utils._foreach_utils._get_foreach_kernels_supported_devices(),
)
def _foreach_devices() -> None:
    old = torch.utils._foreach_utils._get_foreach_kernels_supported_devices
    _rebind(old.__name__, old, _adding_xla(old))


@_patch(
    "fused devices",
    "optimizers refuse fused=True elsewhere",
    lambda: "xla" not in torch.utils._foreach_utils._get_fused_kernels_supported_devices(),
)
def _fused_devices() -> None:
    old = torch.utils._foreach_utils._get_fused_kernels_supported_devices
    _rebind(old.__name__, old, _adding_xla(old))


@_patch(
    "capturable devices",
    "list-wise Adam refuses capturable=True on xla",
    lambda: "xla" not in _optimizer._get_capturable_supported_devices(supports_xla=False),
)
def _capturable_devices() -> None:
    old = _optimizer._get_capturable_supported_devices
    _rebind(old.__name__, old, _adding_xla(old))


def _lacks_seed() -> bool:
    # Asked of the source: calling it would seed every CUDA device of the process.
    return not {"xla", "device_module"} & set(torch.random._manual_seed_impl.__code__.co_names)


@_patch("manual_seed", "torch.manual_seed and torch.seed do not reach xla", _lacks_seed)
def _manual_seed() -> None:
    old_impl, old_seed = torch.random._manual_seed_impl, torch.random.seed

    @functools.wraps(old_impl)
    def manual_seed_impl(seed: Any, *args: Any, **kwargs: Any) -> torch._C.Generator:
        if not device_module._is_in_bad_fork():
            device_module.manual_seed_all(int(seed))
        return old_impl(seed, *args, **kwargs)

    @functools.wraps(old_seed)
    def seed() -> int:
        value = old_seed()
        if not device_module._is_in_bad_fork():
            device_module.manual_seed_all(value)
        return value

    _rebind(old_impl.__name__, old_impl, manual_seed_impl)
    _rebind(old_seed.__name__, old_seed, seed)


def _lacks_fork() -> bool:
    return not {"xla", "device_module"} & set(torch.random.fork_rng.__wrapped__.__code__.co_names)


@_patch("fork_rng", "torch.random.fork_rng forks CUDA's state but not xla's", _lacks_fork)
def _fork_rng() -> None:
    old = torch.random.fork_rng

    @contextlib.contextmanager
    @functools.wraps(old)
    def fork_rng(devices: Any = None, enabled: bool = True, *args: Any, **kwargs: Any) -> Iterator[None]:
        state = device_module.get_rng_state() if enabled and devices is None and not device_module._is_in_bad_fork() else None
        try:
            with old(devices, enabled, *args, **kwargs):
                yield
        finally:
            if state is not None:
                device_module.set_rng_state(state)

    _rebind(old.__name__, old, fork_rng)


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether this is a tensor of ours rather than a fake or wrapping one that reports our device."""
    return tensor.is_xla and type(tensor) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


@_patch("data_ptr", "core reads the pointer of the storage without asking the device for its value", lambda: "data_ptr" not in torch.Tensor.__dict__)
def _data_ptr() -> None:
    old_tensor, old_storage = torch.Tensor.data_ptr, torch.UntypedStorage.data_ptr

    @functools.wraps(old_tensor)
    def tensor_data_ptr(self: torch.Tensor) -> int:
        return _C.data_ptr(self) if _is_plain(self) else old_tensor(self)

    @functools.wraps(old_storage)
    def storage_data_ptr(self: torch.UntypedStorage) -> int:
        if self.device.type != "xla":
            return old_storage(self)
        return _C.data_ptr(pickling.flat(self, torch.uint8))

    torch.Tensor.data_ptr = tensor_data_ptr
    torch.UntypedStorage.data_ptr = storage_data_ptr


@_patch("storage resize", "core resizes storages of unknown devices through their address", lambda: "resize_" not in torch.UntypedStorage.__dict__)
def _storage_resize() -> None:
    old = torch.UntypedStorage.resize_

    @functools.wraps(old)
    def resize_(self: torch.UntypedStorage, size: int) -> torch.UntypedStorage:
        if self.device.type != "xla":
            return old(self, size)
        _C.resize_storage(pickling.flat(self, torch.uint8), int(size))
        return self

    torch.UntypedStorage.resize_ = resize_


def _copies_by_clone() -> bool:
    return "xla" in str(torch.Tensor.__deepcopy__.__code__.co_consts)


@_patch("deepcopy", "core clones xla tensors one by one, so views of one storage part", _copies_by_clone)
def _deepcopy() -> None:
    old = torch.Tensor.__deepcopy__

    @functools.wraps(old)
    def deepcopy(self: torch.Tensor, memo: dict[Any, Any]) -> torch.Tensor:
        return pickling.deepcopy(self, memo) if type(self) is torch.Tensor and self.is_xla and self.is_leaf else old(self, memo)

    torch.Tensor.__deepcopy__ = deepcopy


def _saves_by_copy() -> bool:
    return "xla" in str(torch.Tensor._reduce_ex_internal.__code__.co_consts)


@_patch("save and load", "core saves and restores xla tensors one by one, so views of one storage part", _saves_by_copy)
def _save_and_load() -> None:
    old_reduce, old_rebuild = torch.Tensor._reduce_ex_internal, torch._utils._rebuild_device_tensor_from_cpu_tensor
    old_save, old_load = torch.serialization.save, torch.serialization.load

    @functools.wraps(old_reduce)
    def reduce_ex_internal(self: torch.Tensor, proto: Any) -> Any:
        return pickling.reduce(self) if _is_plain(self) and self.layout == torch.strided and not self.is_quantized else old_reduce(self, proto)

    @functools.wraps(old_rebuild)
    def rebuild(data: torch.Tensor, dtype: torch.dtype, device: Any, requires_grad: bool) -> torch.Tensor:
        target = torch._utils._get_restore_location(device)
        if torch.device(target).type != "xla" or data.dtype != dtype:
            return old_rebuild(data, dtype, device, requires_grad)
        return pickling.rebuild(data, requires_grad)

    @functools.wraps(old_save)
    def save(*args: Any, **kwargs: Any) -> None:
        with pickling.scope():
            old_save(*args, **kwargs)

    @functools.wraps(old_load)
    def load(*args: Any, **kwargs: Any) -> Any:
        with pickling.scope():
            return old_load(*args, **kwargs)

    torch.Tensor._reduce_ex_internal = reduce_ex_internal
    _rebind(old_rebuild.__name__, old_rebuild, rebuild)
    _rebind(old_save.__name__, old_save, save)
    _rebind(old_load.__name__, old_load, load)


def _refuses_dlpack() -> bool:
    return "torch_xla" in torch.Tensor.__dlpack_device__.__code__.co_names


@_patch("__dlpack__", "core drops the stream and the version and refuses everything but CUDA", _refuses_dlpack)
def _dlpack() -> None:
    old, old_device = torch.Tensor.__dlpack__, torch.Tensor.__dlpack_device__
    # Exports a tensor as read-only (2.15); every attribute of it but these two methods raises.
    wrapper = getattr(torch.utils.dlpack, "ReadOnlyTensorWrapper", ())

    def is_ours(tensor: torch.Tensor) -> bool:
        if not isinstance(tensor, wrapper):
            return _is_plain(tensor)
        with torch._C.DisableTorchFunctionSubclass():
            return tensor.is_xla

    @functools.wraps(old)
    def to_dlpack(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return dlpack.export(self, *args, **kwargs) if is_ours(self) else old(self, *args, **kwargs)

    @functools.wraps(old_device)
    def dlpack_device(self: torch.Tensor) -> Any:
        return dlpack.device_of(self) if is_ours(self) else old_device(self)

    torch.Tensor.__dlpack__ = to_dlpack
    torch.Tensor.__dlpack_device__ = dlpack_device
    if wrapper:
        wrapper._DLPACK_ALLOWED |= {to_dlpack, dlpack_device}


def _lacks_exchange() -> bool:
    return torch.Tensor.__dlpack_c_exchange_api__ is not dlpack.exchange_apis.get(torch.Tensor)


@_patch("DLPack C functions", "core's table of C functions asks our tensors for an address that they do not have", _lacks_exchange)
def _exchange_api() -> None:
    # On the type, where other libraries look; those that have looked before keep core's table, which raises for our tensors.
    for kind in (torch.Tensor, getattr(torch.utils.dlpack, "ReadOnlyTensorWrapper", None)):
        if kind is not None and "__dlpack_c_exchange_api__" in kind.__dict__:
            dlpack.extend_exchange_api(kind)


def _knows_no_device() -> bool:
    return "xla" not in torch.utils.dlpack.from_dlpack.__code__.co_consts


@_patch("from_dlpack", "torch.from_dlpack(…, device='xla') knows no such DLPack device", _knows_no_device)
def _from_dlpack() -> None:
    old = torch.utils.dlpack.from_dlpack

    @functools.wraps(old)
    def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> torch.Tensor:
        if device is None:
            shared = _C.lend_to_torch(ext_tensor) if copy is None else None
            return old(ext_tensor, copy=copy) if shared is None else shared
        if torch.device(device).type != "xla":
            return old(ext_tensor, device=device, copy=copy)
        device_module._check(device)
        return dlpack.from_dlpack(ext_tensor, copy=copy)

    _rebind(old.__name__, old, from_dlpack)
