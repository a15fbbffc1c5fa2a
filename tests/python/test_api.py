"""The `torch_xla` API for one device, as scripts and other libraries call it."""

import collections
import io
import threading

import pytest
import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met
import torch_xla.debug.profiler as xp
import torch_xla.runtime as xr
import torch_xla.utils.utils as xu
from programs import assert_same, watch
from thalweg import _C


def test_devices(xla) -> None:
    assert torch_xla.device() == xm.xla_device() == xr.xla_device() == torch.device("xla", 0)
    assert torch_xla.devices() == [torch.device("xla:0")] and torch_xla.device_count() == 1
    kind = _C.device_kind()
    assert torch_xla.real_devices() == [f"{kind}:0"] and xm.xla_real_devices(["xla:0"]) == [f"{kind}:0"]
    assert xm.xla_device_hw(xla) == kind == xr.device_type()
    assert xm.get_xla_supported_devices() == ["xla:0"] and xm.get_xla_supported_devices("TPU") is None
    assert xm.is_xla_tensor(torch.ones(1, device=xla)) and not xm.is_xla_tensor(torch.ones(1))
    assert xm.parse_xla_device("CPU:0") == ("CPU", 0) and xm.parse_xla_device("xla:0") is None
    for wrong in (1, 7):
        with pytest.raises(ValueError, match="one XLA device"):
            torch_xla.device(wrong)
    with pytest.raises(RuntimeError, match="TPU"):
        xr.set_device_type("TPU")


def test_world_of_one() -> None:
    assert (xr.world_size(), xr.global_ordinal(), xr.local_ordinal(), xr.process_count(), xr.process_index()) == (1, 0, 0, 1, 0)
    assert (xm.xrt_world_size(), xm.get_ordinal(), xm.get_local_ordinal(), xm.is_master_ordinal()) == (1, 0, 0, True)
    assert xr.global_runtime_device_count() == xr.local_device_count() == xr.addressable_device_count() == 1
    assert not xr.is_spmd() and xr.using_pjrt()


def test_version_is_pytorchs() -> None:
    assert torch_xla.__version__.split(".")[:2] == torch.__version__.split(".")[:2]
    from importlib.metadata import version

    assert version("torch_xla").split(".")[:2] == torch.__version__.split(".")[:2]


def test_private_names_that_libraries_read(xla) -> None:
    model = torch.nn.Linear(2, 2).to(xla)
    number = torch_xla._XLAC._xla_get_tensor_id(model.weight)
    assert isinstance(number, int) and number == torch_xla._XLAC._xla_get_tensor_id(model.weight.data)
    assert torch_xla._XLAC._xla_get_default_device() == "xla:0"
    torch_xla._XLAC._init_computation_client()
    torch_xla._XLAC._xla_sync_multi([model.weight], ["xla:0"], True, True)
    text = torch_xla._XLAC._get_xla_tensors_text([model.weight * 2])
    assert "stablehlo" in text and "multiply" in text


def test_step_and_compile(xla) -> None:
    x = torch.zeros(2, device=xla)
    torch_xla.sync()
    with watch() as work, torch_xla.step():
        x.add_(1)
    assert work.launches == 1

    @torch_xla.compile
    def twice(y: torch.Tensor) -> torch.Tensor:
        return y * 2

    assert twice(x).tolist() == [2, 2] and twice.__name__ == "twice"
    with torch_xla.compile():
        x.add_(1)
    assert x.tolist() == [2, 2]


def test_compile_full_graph_refuses_reads(xla) -> None:
    def reads(y: torch.Tensor) -> torch.Tensor:
        return y * 2 if (y + 1).sum().item() > 0 else y

    x = torch.ones(2, device=xla)
    assert torch_xla.compile(reads)(x).tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="reads was compiled with full_graph=True, but ran 1 part"):
        torch_xla.compile(reads, full_graph=True)(x)
    assert torch_xla.compile(lambda y: y * 3, full_graph=True)(x).tolist() == [3, 3]


def test_compile_limits_programs(xla) -> None:
    function = torch_xla.compile(lambda y: (y * 5).sin(), max_different_graphs=2, name="wave")
    for rows in (31, 32, 31):
        function(torch.ones(rows).to(xla))
    with pytest.raises(RuntimeError, match="wave needed 3 different programs"):
        function(torch.ones(33).to(xla))


def test_optimizer_step(xla) -> None:
    parameter = torch.nn.Parameter(torch.ones(3, device=xla))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    (parameter * 2).sum().backward()
    with watch() as work:
        xm.optimizer_step(optimizer)
        assert work.launches == 0
        xm.optimizer_step(optimizer, barrier=True)
    assert work.launches == 1 and parameter.tolist() == [-3.0] * 3


def test_step_closures(xla) -> None:
    seen = []
    x = torch.ones(3, device=xla)
    y = x * 2
    xm.add_step_closure(lambda tensor, tag: seen.append((tag, tensor.sum().item())), args=(y, "a"))
    assert seen == []
    xm.mark_step()
    assert seen == [("a", 6.0)]
    xm.mark_step()
    assert len(seen) == 1
    done = threading.Event()
    xm.add_step_closure(done.set, run_async=True)
    xm.mark_step()
    assert done.wait(10)


def test_collectives_of_one(xla) -> None:
    x = torch.arange(4.0, device=xla)
    assert xm.all_reduce(xm.REDUCE_SUM, x, scale=0.5).tolist() == [0, 0.5, 1, 1.5]
    tensors = [x.clone()]
    xm.all_reduce(xm.REDUCE_MAX, tensors, scale=2.0)
    assert tensors[0].tolist() == [0, 2, 4, 6]
    assert xm.all_gather(x).tolist() == xm.all_to_all(x, 0, 0, 1).tolist() == xm.reduce_scatter(xm.REDUCE_SUM, x, 1.0, 0, 1).tolist() == x.tolist()
    assert xm.collective_permute(x, [[0, 0]]).tolist() == x.tolist()
    assert xm.rendezvous("tag", b"mine") == [b"mine"]
    assert xm.mesh_reduce("tag", x.sum(), sum).item() == 6
    model = torch.nn.Linear(2, 2).to(xla)
    xm.broadcast_master_param(model)
    with pytest.raises(ValueError, match="reduction"):
        xm.all_reduce("average", x)
    with pytest.raises(ValueError, match="do not exist"):
        xm.all_reduce(xm.REDUCE_SUM, x, groups=[[0, 1]])


def test_process_group_of_one(xla) -> None:
    import torch.distributed as dist
    import torch_xla.distributed.xla_backend  # noqa: F401

    dist.init_process_group("xla", init_method="xla://")
    try:
        x = torch.arange(3.0, device=xla)
        dist.all_reduce(x)
        gathered = [torch.zeros(3, device=xla)]
        dist.all_gather(gathered, x)
        dist.broadcast(x, 0)
        dist.barrier()
        assert dist.get_world_size() == 1 and x.tolist() == gathered[0].tolist() == [0, 1, 2]
    finally:
        dist.destroy_process_group()


def test_launch_and_spawn(xla) -> None:
    from torch_xla.distributed import xla_multiprocessing as xmp

    seen = []
    torch_xla.launch(lambda index, word: seen.append((index, word)), args=("launch",))
    xmp.spawn(lambda index: seen.append((index, "spawn")), nprocs=1)
    assert seen == [(0, "launch"), (0, "spawn")]
    with pytest.raises(NotImplementedError, match="4 processes"):
        xmp.spawn(print, nprocs=4)
    assert xmp.MpModelWrapper(torch.nn.Linear(1, 1)).to(xla).weight.is_xla
    assert xmp.MpSerialExecutor().run(lambda: 5) == 5


def test_save_and_send(xla) -> None:
    Point = collections.namedtuple("Point", "x y")
    base = torch.arange(4.0, device=xla)
    data = {"t": base, "row": base[1:3], "list": [base, 3], "point": Point(base, None), "state": collections.OrderedDict(a=base)}
    file = io.BytesIO()
    xm.save({name: value for name, value in data.items() if name != "point"}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    assert loaded["t"].device.type == "cpu" and loaded["t"] is loaded["list"][0]
    loaded["row"].zero_()
    assert loaded["t"].tolist() == [0, 0, 0, 3]
    converted = xm._maybe_convert_to_cpu(data)
    assert isinstance(converted["point"], Point) and converted["point"].x.device.type == "cpu" and converted["list"][1] == 3
    assert isinstance(converted["state"], collections.OrderedDict)
    moved = xm.send_cpu_data_to_device(converted, xla)
    assert moved["point"].x.is_xla and moved["list"][0].is_xla
    with pytest.raises(RuntimeError, match="share storage"):
        xm.check_view_sharing(data)
    from torch_xla.core.xla_model import ToXlaTensorArena

    doubled = ToXlaTensorArena(lambda tensors: [tensor * 2 for tensor in tensors], lambda value: value.is_xla).transform([base, torch.ones(1)])
    assert doubled[0].tolist() == [0, 2, 4, 6] and doubled[1].tolist() == [1]


def test_serialization_in_parts(xla, tmp_path) -> None:
    from torch_xla.utils import serialization

    data = {"a": torch.arange(3.0, device=xla), "b": [torch.ones(2), (1, torch.zeros(1))]}
    serialization.save(data, tmp_path / "state")
    loaded = serialization.load(tmp_path / "state")
    assert loaded["a"].tolist() == [0, 1, 2] and loaded["b"][1][1].tolist() == [0]


def test_metrics(xla) -> None:
    met.clear_all()
    x = torch.ones(17, device=xla)
    (x * 3 + 1).sum().item()
    torch_xla.sync()
    samples, total, _ = met.metric_data("ExecuteTime")
    assert samples >= 1 and total > 0
    assert {"CompileTime", "ExecuteTime"} <= set(met.metric_names())
    assert any(name.startswith("xla::") for name in met.counter_names())
    assert met.counter_value("xla::mul") == 1 or met.counter_value("xla::mul.Tensor") == 1
    assert met.counter_value("no such counter") is None and met.metric_data("no such metric") is None
    assert met.counter_value("MarkStep") >= 1
    report = met.metrics_report()
    assert "Metric: ExecuteTime" in report and "TotalSamples" in report and "Counter: MarkStep" in report
    assert "ExecuteTime" in met.short_metrics_report()
    met.clear_all()
    assert met.metric_data("ExecuteTime") is None and not met.executed_fallback_ops()


def test_memory_info(xla) -> None:
    torch_xla.sync(wait=True)
    before = xm.get_memory_info(xla)
    kept = torch.ones(1000, 1000, device=xla)
    torch_xla.sync(wait=True)
    after = xm.get_memory_info(xla)
    assert after["bytes_used"] - before["bytes_used"] >= kept.numel() * 4
    assert after["peak_bytes_used"] >= after["bytes_used"] and after["bytes_limit"] > after["bytes_used"]


def test_rate_tracker() -> None:
    import time

    tracker = xm.RateTracker()
    time.sleep(0.05)
    tracker.add(10)
    first = tracker.rate()
    assert 50 < first < 200.1 and 50 < tracker.global_rate() < 200.1
    time.sleep(0.05)
    tracker.add(100)
    second = tracker.rate()
    assert first < second < 2000.1
    assert xm.RateTracker(smooth_factor=0).rate() >= 0


def test_master_print(capsys) -> None:
    xm.master_print("hello", 3, flush=True)
    assert capsys.readouterr().out == "hello 3\n"
    assert xm.do_on_ordinals(lambda value: value + 1, data=(2,)) == 3
    assert xm.do_on_ordinals(lambda: 1, ordinals=(3,)) is None


def test_step_trace_ends_a_step(xla) -> None:
    x = torch.ones(2, device=xla)
    with watch() as work, xp.StepTrace("train", step_num=3):
        x.add_(1)
        with xp.Trace("inner"):
            x.mul_(2)
    assert work.launches == 1 and x.tolist() == [4, 4]


def test_utils() -> None:
    generator = xu.SampleGenerator(data=(1, 2), sample_count=3)
    assert list(generator) == [(1, 2)] * 3 and len(generator) == 3
    import os

    os.environ["THALWEG_TEST_VALUE"] = "0"
    try:
        assert xu.getenv_as("THALWEG_TEST_VALUE", int) == 0 and xu.getenv_as("THALWEG_TEST_VALUE", bool) is False
    finally:
        del os.environ["THALWEG_TEST_VALUE"]
    assert xu.getenv_as("THALWEG_TEST_VALUE", int, 5) == 5


def test_spmd_over_one_device(xla) -> None:
    import torch_xla.distributed.spmd as xs

    mesh = xs.Mesh([0], (1, 1), ("data", "model"))
    xs.set_global_mesh(mesh)
    assert xs.get_global_mesh() is mesh and mesh.shape() == {"data": 1, "model": 1}
    x = torch.ones(2, 2, device=xla)
    assert xs.mark_sharding(x, mesh, ("data", None)) is x
    with pytest.raises(ValueError, match="no axis"):
        xs.mark_sharding(x, mesh, ("rows", None))
    with pytest.raises(ValueError, match="each dimension"):
        xs.mark_sharding(x, mesh, ("data",))
    with pytest.raises(ValueError, match="one XLA device"):
        xs.Mesh(range(4), (2, 2))


def test_eager_mode(xla) -> None:
    from torch_xla import experimental

    experimental.eager_mode(True)
    with watch() as work:
        x = torch.ones(2, device=xla) + 1
    assert experimental.is_eager_mode() and work.launches >= 1
    experimental.eager_mode(False)
    assert x.tolist() == [2, 2]


def test_openxla_on_cpu_arguments(xla) -> None:
    torch._dynamo.reset()
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    x = torch.randn(5, 3)
    compiled = torch.compile(model, backend="openxla")
    torch.testing.assert_close(compiled(x), model(x))
    compiled(x).sum().backward()
    ours = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    model(x).sum().backward()
    for mine, parameter in zip(ours, model.parameters(), strict=True):
        torch.testing.assert_close(mine, parameter.grad)


def test_openxla_writes_back(xla) -> None:
    torch._dynamo.reset()

    def update(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        return x * 2

    for device in ("cpu", "xla"):
        x, y = torch.ones(3, device=device), torch.arange(3.0, device=device)
        result = torch.compile(update, backend="openxla")(x, y)
        assert x.tolist() == [1, 2, 3] and result.tolist() == [2, 4, 6] and result.device.type == device


def test_get_stablehlo(xla) -> None:
    text = xm.get_stablehlo([torch.ones(3, device=xla).tanh()])
    assert "stablehlo.tanh" in text and "func" in text


def test_wait_device_ops_does_not_flush(xla) -> None:
    x = torch.ones(2, device=xla)
    torch_xla.sync()
    with watch() as work:
        y = x * 2
        xm.wait_device_ops()
    assert work.launches == 0
    assert_same(y, torch.full((2,), 2.0))
