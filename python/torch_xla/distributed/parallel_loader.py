"""`torch_xla.distributed.parallel_loader`, usually `pl`: batches that are on the device when the step wants them."""

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from thalweg import device_module

from torch_xla import step_scope
from torch_xla.core import xla_model

_END = object()


class _Failure:
    """An exception of a loader thread on its way to the thread that iterates."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _Closed(Exception):
    """The iteration was given up."""


class PerDeviceLoader:
    """Iterates over one device's batches; each `next` after the first ends the step before it."""

    def __init__(self, loader: "ParallelLoader", device: torch.device) -> None:
        self._loader, self._device = loader, device
        self._batches = 0

    def __iter__(self) -> "PerDeviceLoader":
        return self

    def __next__(self) -> Any:
        return self.next()

    def __len__(self) -> int:
        return self._loader.per_device_samples()

    def next(self) -> Any:
        """The next batch on the device, or StopIteration."""
        if self._batches % self._loader.batches_per_execution == 0 and self._batches:
            step_scope.sync()
        item = self._loader.next_item(self._device)
        if item is _END:
            if self._batches % self._loader.batches_per_execution:
                step_scope.sync()
            raise StopIteration
        self._batches += 1
        return item

    def close(self) -> None:
        """Gives the iteration up."""
        self._loader.close()


class ParallelLoader:
    """Loads batches in one thread and moves them to the device in others, ahead of the step.

    cpu_loader: gives batches, nested containers with CPU tensors. devices: the one XLA device. loader_prefetch_size and device_prefetch_size: how many
    batches wait on the host and on the device. host_to_device_transfer_threads: how many threads move them (more than one still keeps the order).
    """

    def __init__(
        self,
        cpu_loader: Iterable[Any],
        devices: list[Any],
        batchdim: int = 0,
        batches_per_execution: int = 1,
        loader_prefetch_size: int = 16,
        device_prefetch_size: int = 8,
        host_to_device_transfer_threads: int = 1,
        input_sharding: Any = None,
    ) -> None:
        if len(devices) != 1:
            raise ValueError(f"there is one XLA device; asked to load for {len(devices)}")
        for name, value in (("batches_per_execution", batches_per_execution), ("host_to_device_transfer_threads", host_to_device_transfer_threads)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1; it is {value}")
        self.batches_per_execution = batches_per_execution
        self._cpu_loader = cpu_loader
        self._device = device_module._check(devices[0])
        self._batchdim = batchdim
        self._closed = threading.Event()
        # The transfer threads take turns, so that batches leave in the order they came.
        self._taking, self._turn = threading.Lock(), threading.Condition()
        self._taken = self._given = 0
        self._host: queue.Queue[Any] = queue.Queue(max(loader_prefetch_size, 1))
        self._ready: queue.Queue[Any] = queue.Queue(max(device_prefetch_size, 1))
        targets = [self._load] + [self._transfer] * host_to_device_transfer_threads
        self._threads = [threading.Thread(target=target, daemon=True, name=f"thalweg-{target.__name__[1:]}") for target in targets]
        for thread in self._threads:
            thread.start()

    def per_device_loader(self, device: Any) -> PerDeviceLoader:
        """The iterator over `device`'s batches."""
        return PerDeviceLoader(self, device_module._check(device))

    def per_device_samples(self) -> int:
        """The number of batches, where the loader has a length."""
        return len(self._cpu_loader)  # type: ignore[arg-type]

    def next_item(self, device: torch.device) -> Any:
        """The next batch, or the mark of the end; raises what a loader thread raised."""
        if self._closed.is_set():
            return _END
        item = self._get(self._ready)
        if item is _END or isinstance(item, _Failure):
            self.close()
        if isinstance(item, _Failure):
            raise item.error
        return item

    def close(self) -> None:
        """Stops the threads; batches that were loaded ahead are dropped."""
        self._closed.set()
        with self._turn:
            self._turn.notify_all()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(timeout=5)

    def _put(self, where: "queue.Queue[Any]", item: Any) -> None:
        while not self._closed.is_set():
            try:
                return where.put(item, timeout=0.1)
            except queue.Full:
                continue
        raise _Closed

    def _get(self, where: "queue.Queue[Any]") -> Any:
        while not self._closed.is_set():
            try:
                return where.get(timeout=0.1)
            except queue.Empty:
                continue
        return _END

    def _load(self) -> None:
        last: Any = _END
        try:
            for batch in self._cpu_loader:
                self._put(self._host, batch)
        except _Closed:
            return
        except BaseException as error:  # noqa: BLE001  it belongs to the thread that iterates
            last = _Failure(error)
        try:
            for _ in self._threads[1:]:
                self._put(self._host, last)
        except _Closed:
            return

    def _transfer(self) -> None:
        try:
            while True:
                with self._taking:
                    item = self._get(self._host)
                    number = self._taken
                    self._taken += 1
                if item is not _END and not isinstance(item, _Failure):
                    item = self._move(item)
                with self._turn:
                    self._turn.wait_for(lambda mine=number: self._given == mine or self._closed.is_set())  # type: ignore[misc]
                    self._put(self._ready, item)
                    self._given += 1
                    self._turn.notify_all()
                if item is _END or isinstance(item, _Failure):
                    return
        except _Closed:
            return

    def _move(self, batch: Any) -> Any:
        try:
            return xla_model.send_cpu_data_to_device(batch, self._device)
        except Exception as error:  # noqa: BLE001  it belongs to the thread that iterates
            return _Failure(error)


class MpDeviceLoader:
    """A data loader whose batches arrive on the device; may be iterated again, once an epoch. Keywords are those of ParallelLoader."""

    def __init__(self, loader: Any, device: Any, **kwargs: Any) -> None:
        self._loader, self._device = loader, device_module._check(device)
        self._arguments = kwargs

    def __iter__(self) -> Iterator[Any]:
        parallel = ParallelLoader(self._loader, [self._device], **self._arguments)
        try:
            yield from parallel.per_device_loader(self._device)
        finally:
            parallel.close()

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_loader", "_device", "_arguments"):
            raise AttributeError(name)
        return getattr(self._loader, name)
