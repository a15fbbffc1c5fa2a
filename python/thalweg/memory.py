"""Looking at the device's memory: recordings, snapshots that PyTorch's memory_viz page opens, Perfetto traces, one HTML page of both, and who holds what.

thalweg.memory.record()                   # from now on
…
thalweg.memory.dump("snapshot.pickle")    # for https://pytorch.org/memory_viz, and for `python -m thalweg memory snapshot.pickle`
thalweg.memory.trace("trace.json")        # for https://ui.perfetto.dev
thalweg.memory.page("memory.html")        # both, in a page that needs nothing else
"""

import collections
import json
import os
import pathlib
import pickle
import re
from typing import Any, TypeAlias

from thalweg import _C

Snapshot: TypeAlias = dict[str, Any]
_Event: TypeAlias = tuple[str, int, int, int, int, str, str]

# What the line of an operation looks like behind its name: "aten::mul.Tensor train.py:12 (step)".
_LINE = re.compile(r"^(?P<name>.*?) (?P<file>\S+):(?P<line>\d+)(?: \((?P<function>.*)\))?$")
# Actions of PyTorch's traces by ours.
_ACTIONS = {"allocated": "alloc", "freed": "free_requested", "completed": "free_completed", "out of memory": "oom"}


def record(limit: int = 100_000, lines: bool = True) -> None:
    """Starts a recording of the latest `limit` events: allocations, frees and work on the device. With `lines`, operations remember their Python line."""
    if limit <= 0:
        raise ValueError(f"a recording keeps at least one event; limit is {limit}; stop() ends one")
    if lines:
        _C.set_record_lines(True)
    _C.record_history(limit)


def stop() -> None:
    """Ends the recording; what it has stays readable until the next one starts."""
    _C.record_history(0)


def _frames(label: str) -> list[dict[str, Any]]:
    match = _LINE.match(label)
    if match is None:
        return [{"filename": "", "line": 0, "name": label}] if label else []
    function = match["function"]
    return [
        {"filename": match["file"], "line": int(match["line"]), "name": match["name"]},
        *([{"filename": match["file"], "line": int(match["line"]), "name": function}] if function else []),
    ]


def _stream_numbers(raw: dict[str, list[Any]]) -> dict[str, int]:
    """Streams by name, the compute stream being PyTorch's stream 0."""
    names = {block[4] for block in raw["blocks"]} | {event[5] for event in raw["events"]}
    return {name: number for number, name in enumerate(["compute", *sorted(names - {"compute", ""})])}


def _segments(blocks: list[Any], streams: dict[str, int]) -> list[dict[str, Any]]:
    """Runs of neighbouring blocks; memory of others, on a stream of its own called "adopted", is live as well."""
    states = {"live": "active_allocated", "pending": "active_pending_free", "free": "inactive"}
    segments: list[dict[str, Any]] = []
    end = None
    for address, size, requested, state, stream, label in blocks:
        if address != end:
            segments.append(
                {
                    "device": 0,
                    "address": address,
                    "total_size": 0,
                    "allocated_size": 0,
                    "active_size": 0,
                    "requested_size": 0,
                    "stream": 0,
                    "segment_type": "large",
                    "segment_pool_id": (0, 0),
                    "is_expandable": True,
                    "frames": [],
                    "blocks": [],
                }  # fmt: skip
            )
        segment = segments[-1]
        segment["total_size"] += size
        if state != "free":
            segment["active_size"] += size
        if state == "live":
            segment["allocated_size"] += size
            segment["requested_size"] += requested
        # A free block is as large as it is; a live one was asked for.
        asked = requested if state == "live" else size
        block = {"address": address, "size": size, "requested_size": asked, "state": states[state], "frames": _frames(label)}
        segment["blocks"].append(block | {"stream": streams.get(stream, 0)})
        end = address + size
    return segments


def _traces(events: list[_Event], streams: dict[str, int]) -> list[dict[str, Any]]:
    """The recording in PyTorch's words; work on streams has none."""
    return [
        {
            "action": _ACTIONS[what],
            "addr": address,
            "size": size,
            "stream": streams.get(stream, 0),
            "time_us": start // 1000,
            "frames": _frames(label),
            "compile_context": "N/A",
            "user_metadata": "",
        }  # fmt: skip
        for what, start, _, address, size, stream, label in events
        if what in _ACTIONS
    ]


def snapshot() -> Snapshot:
    """The device's memory now, and the latest recording, in the structure of `torch.cuda.memory._snapshot()`."""
    raw = _C.memory_snapshot()
    streams = _stream_numbers(raw)
    return {
        "segments": _segments(raw["blocks"], streams),
        "device_traces": [_traces(raw["events"], streams)],
        "allocator_settings": {"expandable_segments": True},
        "external_annotations": [],
        "stream_names": {number: name for name, number in streams.items()},
    }


def dump(path: str | os.PathLike[str]) -> None:
    """Writes `snapshot()` as a pickle, the file that PyTorch's memory_viz page opens."""
    with open(path, "wb") as file:
        pickle.dump(snapshot(), file)


def _track(events: list[dict[str, Any]], number: int, name: str) -> int:
    events.append({"name": "thread_name", "ph": "M", "pid": 1, "tid": number, "args": {"name": name}})
    return number


def _trace(raw: dict[str, list[Any]]) -> dict[str, Any]:
    """The recording as Chrome's trace events: a track a stream, a slice a buffer, and counters of bytes."""
    out: list[dict[str, Any]] = [{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "xla:0"}}]
    tracks: dict[str, int] = {}
    live: dict[int, tuple[int, int]] = {}  # address → number of its slice, bytes
    numbers = bytes_live = bytes_pending = 0

    def buffer(phase: str, number: int, label: str, start: int, **details: Any) -> None:
        slice_ = {"name": label or "(not written yet)", "cat": "memory", "ph": phase, "id": number, "pid": 1, "tid": 0, "ts": start / 1000}
        out.append(slice_ | {"args": details})

    for what, start, end, address, size, stream, label in raw["events"]:
        if what == "ran":
            if stream not in tracks:
                tracks[stream] = _track(out, len(tracks) + 1, f"stream {stream}")
            out.append({"name": label or "work", "ph": "X", "pid": 1, "tid": tracks[stream], "ts": start / 1000, "dur": (end - start) / 1000, "args": {}})
            continue
        if what == "allocated":
            numbers += 1
            live[address] = (numbers, size)
            bytes_live += size
            buffer("b", numbers, label, start, bytes=size, address=hex(address), stream=stream)
        elif what == "freed":
            number, known = live.pop(address, (0, 0))
            bytes_live -= known
            bytes_pending += known
            if number:
                buffer("e", number, label, start)
        elif what == "completed":
            bytes_pending = max(bytes_pending - size, 0)
        else:
            out.append({"name": f"out of memory: {size} bytes", "ph": "i", "s": "g", "pid": 1, "tid": 0, "ts": start / 1000})
        counts = {"live": bytes_live, "freed, in use": bytes_pending}
        out.append({"name": "memory", "ph": "C", "pid": 1, "ts": start / 1000, "args": counts})
    return {"traceEvents": out, "displayTimeUnit": "ns"}


def trace(path: str | os.PathLike[str]) -> None:
    """Writes the latest recording for Perfetto: what ran on each stream, the life of each buffer, and bytes over time."""
    pathlib.Path(path).write_text(json.dumps(_trace(_C.memory_snapshot())))


def page(path: str | os.PathLike[str]) -> None:
    """Writes one HTML page of the latest recording: buffers over time, streams below them, and who holds what. It needs no network."""
    raw = _C.memory_snapshot()
    data = {"events": raw["events"], "holders": holders(snapshot())}
    template = (pathlib.Path(__file__).parent / "memory_page.html").read_text()
    # No "</script>" may end the data early.
    pathlib.Path(path).write_text(template.replace("/*DATA*/", json.dumps(data).replace("</", "<\\/")))


def holders(of: Snapshot) -> list[tuple[str, int, int]]:
    """(label, bytes, buffers) of the live blocks of a snapshot, most bytes first."""
    sums: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
    for segment in of["segments"]:
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                frame = (block.get("frames") or [{"name": "(never written)", "filename": "", "line": 0}])[0]
                place = f" {frame['filename']}:{frame['line']}" if frame["filename"] else ""
                entry = sums[frame["name"] + place]
                entry[0] += block["size"]
                entry[1] += 1
    return sorted(((label, size, count) for label, (size, count) in sums.items()), key=lambda row: -row[1])


def report(of: Snapshot) -> str:
    """Who holds what in a snapshot, of ours or of PyTorch's CUDA allocator, as text."""
    totals: dict[str, int] = collections.Counter()
    names = of.get("stream_names", {})
    for segment in of["segments"]:
        for block in segment["blocks"]:
            adopted = names.get(block.get("stream")) == "adopted"
            totals["adopted" if adopted else block["state"]] += block["size"]
    mib = 1 << 20
    reserved = sum(totals.values()) - totals["adopted"]
    rows = [
        f"reserved {reserved / mib:.2f} MiB: live {totals['active_allocated'] / mib:.2f}, freed but in use {totals['active_pending_free'] / mib:.2f}, "
        f"free {totals['inactive'] / mib:.2f}" + (f"; adopted {totals['adopted'] / mib:.2f}" if totals["adopted"] else "")
    ]
    rows += [f"{size / mib:10.2f} MiB in {count:5} {'buffer ' if count == 1 else 'buffers'} of {label}" for label, size, count in holders(of)]
    return "\n".join(rows)
