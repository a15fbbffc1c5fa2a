"""Loaders that move batches ahead of the step."""

import threading
import time

import pytest
import torch
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from programs import watch


def _batches(count: int) -> list[dict]:
    return [{"x": torch.full((2, 2), float(index)), "y": [torch.tensor(index), "name"]} for index in range(count)]


@pytest.mark.parametrize("threads", [1, 3])
def test_order_and_structure(xla, threads: int) -> None:
    loader = pl.MpDeviceLoader(_batches(20), xla, host_to_device_transfer_threads=threads, loader_prefetch_size=3, device_prefetch_size=2)
    assert len(loader) == 20
    for _ in range(2):
        seen = list(loader)
        assert [int(batch["y"][0].item()) for batch in seen] == list(range(20))
        assert all(batch["x"].is_xla and batch["y"][1] == "name" for batch in seen)


def test_each_batch_ends_a_step(xla) -> None:
    weight = torch.zeros(2, 2, device=xla)
    with watch() as work:
        for batch in pl.MpDeviceLoader(_batches(5), xla):
            weight += batch["x"]
    assert work.launches == 5 and weight[0, 0].item() == 10


def test_batches_per_execution(xla) -> None:
    weight = torch.zeros(2, 2, device=xla)
    xm.mark_step()
    with watch() as work:
        for batch in pl.MpDeviceLoader(_batches(6), xla, batches_per_execution=3):
            weight += batch["x"]
    assert work.launches == 2 and weight[0, 0].item() == 15


def test_errors_reach_the_loop(xla) -> None:
    def broken():
        yield torch.ones(1)
        raise OSError("disk gone")

    class Loader:
        def __iter__(self):
            return broken()

    with pytest.raises(OSError, match="disk gone"):
        list(pl.MpDeviceLoader(Loader(), xla))


def test_break_stops_the_threads(xla) -> None:
    before = threading.active_count()
    for _ in pl.MpDeviceLoader(_batches(100), xla, loader_prefetch_size=1, device_prefetch_size=1):
        break
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() <= before


def test_parallel_loader(xla) -> None:
    loader = pl.ParallelLoader(_batches(4), [xla])
    device_loader = loader.per_device_loader(xla)
    assert len(device_loader) == 4
    assert [batch["x"][0, 0].item() for batch in device_loader] == [0, 1, 2, 3]
    loader.close()
    with pytest.raises(ValueError, match="one XLA device"):
        pl.ParallelLoader([], ["xla:0", "xla:0"])


def test_attributes_of_the_loader(xla) -> None:
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.arange(6.0)), batch_size=2)
    loader = pl.MpDeviceLoader(data, xla)
    assert loader.batch_size == 2 and len(loader.dataset) == 6
    assert [batch[0].sum().item() for batch in loader] == [1, 5, 9]
