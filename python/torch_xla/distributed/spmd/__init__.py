"""`torch_xla.distributed.spmd`, usually `xs`: sharding over a mesh, for a mesh of one device, where every sharding is the whole."""

from collections.abc import Sequence
from typing import Any

import numpy
import torch

from torch_xla import _upstream


class Mesh:
    """Devices in a logical grid. device_ids: numbers of the devices; mesh_shape: the grid; axis_names: a name for each of its axes."""

    def __init__(self, device_ids: Any, mesh_shape: Sequence[int], axis_names: Sequence[str] | None = None) -> None:
        self.device_ids = numpy.asarray(device_ids)
        self.mesh_shape = tuple(mesh_shape)
        self.axis_names = tuple(axis_names or ())
        if self.device_ids.size != 1 or int(numpy.prod(self.mesh_shape)) != 1:
            raise ValueError(f"there is one XLA device; a mesh of shape {self.mesh_shape} over {self.device_ids.size} devices can't be made")
        if self.axis_names and len(self.axis_names) != len(self.mesh_shape):
            raise ValueError(f"a mesh of {len(self.mesh_shape)} axes needs as many names; got {self.axis_names}")

    def size(self) -> int:
        """The number of devices."""
        return 1

    def shape(self) -> dict[str, int]:
        """Axis name -> devices along it."""
        return dict(zip(self.axis_names, self.mesh_shape, strict=False))

    def get_logical_mesh(self) -> Any:
        """The device numbers as an array of the mesh's shape."""
        return self.device_ids.reshape(self.mesh_shape)

    def get_axis_name_idx(self, name: str) -> int | None:
        """The number of the axis named so, or None."""
        return self.axis_names.index(name) if name in self.axis_names else None


class ShardingSpec:
    """How a loader's batches are sharded; over one device, not at all."""

    def __init__(self, mesh: Mesh, partition_spec: Sequence[Any], minibatch: bool = False) -> None:
        self.mesh, self.partition_spec, self.minibatch = mesh, tuple(partition_spec), minibatch

    def apply(self, tensor: torch.Tensor) -> None:
        """Shards `tensor`."""
        mark_sharding(tensor, self.mesh, self.partition_spec)


_global_mesh: list[Mesh | None] = [None]


def set_global_mesh(mesh: Mesh) -> None:
    """Makes `mesh` what get_global_mesh gives."""
    _global_mesh[0] = mesh


def get_global_mesh() -> Mesh | None:
    """The mesh of set_global_mesh."""
    return _global_mesh[0]


def get_1d_mesh(axis_name: str | None = None) -> Mesh:
    """The mesh of all devices in one axis."""
    return Mesh([0], (1,), (axis_name,) if axis_name else None)


def mark_sharding(tensor: torch.Tensor, mesh: Mesh, partition_spec: Sequence[Any], **kwargs: Any) -> torch.Tensor:
    """Splits `tensor` over the mesh's axes in `partition_spec` (an axis or None for each dimension); over one device it stays whole."""
    if len(partition_spec) != tensor.dim():
        raise ValueError(f"a partition spec names an axis or None for each dimension; it has {len(partition_spec)}, the tensor {tensor.dim()}")
    for axis in partition_spec:
        names = axis if isinstance(axis, tuple) else (axis,)
        for name in names:
            known = name is None or name in mesh.axis_names or (isinstance(name, int) and 0 <= name < len(mesh.mesh_shape))
            if not known:
                raise ValueError(f"the mesh has no axis {name!r}; it has {mesh.axis_names}")
    return tensor


def mark_sharding_with_gradients(tensor: torch.Tensor, mesh: Mesh, partition_spec: Sequence[Any]) -> torch.Tensor:
    """As mark_sharding."""
    return mark_sharding(tensor, mesh, partition_spec)


def clear_sharding(tensor: torch.Tensor) -> torch.Tensor:
    """Makes `tensor` whole on each device, which it is."""
    return tensor


__getattr__ = _upstream.missing(__name__)
