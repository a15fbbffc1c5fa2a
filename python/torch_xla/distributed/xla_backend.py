"""The torch.distributed backend "xla" and its rendezvous "xla://", for a world of one process. Importing this registers both."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import register_rendezvous_handler


class ProcessGroupXla(dist.ProcessGroup):
    """A process group of one: every collective is done when it is called, in the order of the program that is being traced."""

    def __init__(self, prefix_store: Any, rank: int, size: int, timeout: Any = None) -> None:
        if size != 1:
            raise NotImplementedError(f"{size} processes can't train together yet; run one")
        super().__init__(rank, size)

    def getBackendName(self) -> str:  # noqa: N802  core's name
        """The name that init_process_group takes."""
        return "xla"

    def _done(self, result: Any = None) -> Any:
        future: torch.futures.Future[Any] = torch.futures.Future()
        future.set_result(result)
        return torch._C._distributed_c10d._create_work_from_future(future)

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        """Leaves `tensors` as they are: the sum, or mean, of one."""
        return self._done(tensors)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Any:
        """As allreduce."""
        return self._done(tensors)

    def broadcast(self, tensors: Any, opts: Any = None) -> Any:
        """Leaves `tensors` as they are: the root is here."""
        return self._done(tensors)

    def reduce(self, tensors: Any, opts: Any = None) -> Any:
        """Leaves `tensors` as they are."""
        return self._done(tensors)

    def allgather(self, output_tensors_list: Any, input_tensors: Any, opts: Any = None) -> Any:
        """Copies each tensor to the one place in its list."""
        for outputs, source in zip(output_tensors_list, input_tensors, strict=True):
            outputs[0].copy_(source)
        return self._done(output_tensors_list)

    def _allgather_base(self, output: Any, source: Any, opts: Any = None) -> Any:
        output.copy_(source.view_as(output))
        return self._done(output)

    def reduce_scatter(self, output_tensors: Any, input_tensors_list: Any, opts: Any = None) -> Any:
        """Copies the one tensor of each list."""
        for output, sources in zip(output_tensors, input_tensors_list, strict=True):
            output.copy_(sources[0])
        return self._done(output_tensors)

    def _reduce_scatter_base(self, output: Any, source: Any, opts: Any = None) -> Any:
        output.copy_(source.view_as(output))
        return self._done(output)

    def gather(self, output_tensors_list: Any, input_tensors: Any, opts: Any = None) -> Any:
        """As allgather."""
        return self.allgather(output_tensors_list, input_tensors)

    def scatter(self, output_tensors: Any, input_tensors_list: Any, opts: Any = None) -> Any:
        """As reduce_scatter."""
        return self.reduce_scatter(output_tensors, input_tensors_list)

    def alltoall_base(self, output: Any, source: Any, output_sizes: Any, input_sizes: Any, opts: Any = None) -> Any:
        """Copies `source`: all of it stays here."""
        output.copy_(source.view_as(output))
        return self._done(output)

    def alltoall(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Any:
        """Copies each tensor: all of them stay here."""
        for output, source in zip(output_tensors, input_tensors, strict=True):
            output.copy_(source)
        return self._done(output_tensors)

    def barrier(self, opts: Any = None) -> Any:
        """Nobody to wait for."""
        return self._done()


def _create(prefix_store: Any, rank: int, size: int, timeout: Any) -> ProcessGroupXla:
    return ProcessGroupXla(prefix_store, rank, size, timeout)


def _meet(url: str, timeout: Any = None, **kwargs: Any) -> Iterator[tuple[Any, int, int]]:
    yield dist.HashStore(), 0, 1


def _register() -> None:
    if "XLA" not in dist.Backend._plugins:  # once a process, even when this module is reloaded
        dist.Backend.register_backend("xla", _create, devices="xla")
        register_rendezvous_handler("xla", _meet)


_register()
