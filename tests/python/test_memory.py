"""Recordings, snapshots, traces and pages of the device's memory."""

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import thalweg
import torch
import torch.cuda._memory_viz
import torch_xla
from thalweg import memory


@pytest.fixture
def recording(xla) -> Any:
    """A recording that ends with the test."""
    memory.record()
    yield xla
    memory.stop()
    thalweg.record_lines(False)


def work(device: torch.device) -> torch.Tensor:
    """Leaves one tensor of 4 MB and frees another of 8 MB."""
    kept = torch.ones(1000, 1000, device=device) * 3
    torch_xla.sync(wait=True)
    gone = torch.cat([kept, kept])
    torch_xla.sync(wait=True)
    assert gone[-1, -1].item() == 3
    del gone
    return kept


def test_a_snapshot_is_what_pytorch_reads(recording) -> None:
    kept = work(recording)
    shot = memory.snapshot()
    # PyTorch's own reader of snapshots.
    assert "mul" in json.dumps(shot) and "total_allocated" in torch.cuda._memory_viz.segsum(shot)
    assert "3.8MiB" in torch.cuda._memory_viz.trace(shot)
    assert "<html>" in torch.cuda._memory_viz.trace_plot(shot)
    blocks = [block for segment in shot["segments"] for block in segment["blocks"]]
    live = [block for block in blocks if block["state"] == "active_allocated"]
    assert sum(block["size"] for block in live) == thalweg.memory_info()["live"]
    mine = [block for block in live if block["address"] == kept.data_ptr()]
    assert len(mine) == 1 and mine[0]["requested_size"] == 4_000_000
    frame = mine[0]["frames"][0]
    assert "mul" in frame["name"] and Path(frame["filename"]).name == Path(__file__).name
    for segment in shot["segments"]:
        at = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == at
            at += block["size"]
        assert at == segment["address"] + segment["total_size"]


def test_every_allocation_is_freed_once(recording) -> None:
    work(recording)
    torch_xla.sync(wait=True)
    live: dict[int, int] = {}
    pending = 0
    times = []
    for event in memory.snapshot()["device_traces"][0]:
        times.append(event["time_us"])
        if event["action"] == "alloc":
            assert event["addr"] not in live
            live[event["addr"]] = event["size"]
        elif event["action"] == "free_requested":
            pending += live.pop(event["addr"], event["size"])
        else:
            assert event["action"] == "free_completed"
            pending -= event["size"]
    assert times == sorted(times) and pending == 0
    assert 8_000_000 not in live.values()


def test_holders(recording, tmp_path) -> None:
    kept = work(recording)
    memory.dump(tmp_path / "snapshot.pickle")
    command = [sys.executable, "-m", "thalweg", "memory", str(tmp_path / "snapshot.pickle")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    rows = [row for row in done.stdout.splitlines() if "mul" in row]
    assert len(rows) == 1 and 3.81 <= float(rows[0].split()[0]) <= 4.0, done.stdout  # a block may be 6 % larger than was asked for
    assert kept is not None


def test_files_that_are_no_snapshots(tmp_path) -> None:
    (tmp_path / "text").write_text("hello")
    (tmp_path / "code").write_bytes(pickle.dumps(subprocess.run))
    for path in (tmp_path / "text", tmp_path / "code", tmp_path / "missing"):
        done = subprocess.run([sys.executable, "-m", "thalweg", "memory", str(path)], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1 and "no memory snapshot" in done.stderr


def test_a_trace_has_streams_buffers_and_bytes(recording, tmp_path) -> None:
    work(recording)
    memory.trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert "stream compute" in tracks.values()
    programs = [event for event in events if event["ph"] == "X" and tracks[event["tid"]] == "stream compute"]
    assert programs and all(event["dur"] >= 0 for event in programs)
    begun = {event["id"] for event in events if event["ph"] == "b"}
    ended = [event["id"] for event in events if event["ph"] == "e"]
    assert set(ended) <= begun and len(set(ended)) == len(ended)
    assert max(event["args"]["live"] for event in events if event["ph"] == "C") >= 12_000_000


def test_the_page_is_self_contained(recording, tmp_path) -> None:
    kept = work(recording)
    memory.page(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    start = text.index("const data = ") + len("const data = ")
    data = json.loads(text[start : text.index(";\nconst MIB")].replace("<\\/", "</"))
    assert any("mul" in label for label, _, _ in data["holders"])
    assert any(event[0] == "ran" for event in data["events"])
    assert "http" not in text and kept is not None


def test_recordings_are_bounded_and_end(xla) -> None:
    memory.record(limit=10, lines=False)
    for _ in range(20):
        (torch.ones(100, device=xla) + 1).sum().item()
    memory.stop()
    before = memory.snapshot()["device_traces"][0]
    assert 0 < len(before) <= 10
    torch.ones(100, device=xla).sum().item()
    assert len(memory.snapshot()["device_traces"][0]) == len(before)
    with pytest.raises(ValueError, match="limit"):
        memory.record(0)
