"""What a training run shows: a live bar with loss, images a second and compiles, one line an epoch, and a summary of what the device did."""

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any

import rich.console
import rich.progress
import rich.table
import rich.text


class _StateColumn(rich.progress.ProgressColumn):
    """Says "compiling…" while a step has kept the host for more than a second."""

    def __init__(self, show: "Show") -> None:
        super().__init__()
        self._show = show

    def render(self, task: Any) -> rich.text.Text:
        since = self._show.waiting_since
        waiting = since is not None and time.monotonic() - since > 1
        return rich.text.Text(f"compiling… {time.monotonic() - since:.0f} s" if waiting and since else "", style="yellow")


class Device:
    """What the device has done so far; on the CPU without Thalweg there is nothing to tell."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.compiles: list[Any] = []

    def update(self) -> None:
        """Takes new compiles over from the flush log, which forgets old entries."""
        if self.kind != "xla":
            return
        import thalweg
        from torch_xla.debug import metrics

        new = (metrics.metric_data("CompileTime") or (0,))[0] - len(self.compiles)
        if new > 0:
            self.compiles += [flush for flush in thalweg.flushes() if flush.compiled][-new:]

    def launches(self) -> int:
        """Programs launched."""
        from torch_xla.debug import metrics

        return (metrics.metric_data("ExecuteTime") or (0,))[0]


class Show:
    """The output of one run."""

    def __init__(self, device: Device, steps: int, quiet: bool) -> None:
        self.device, self.steps = device, steps
        self.console = rich.console.Console(quiet=quiet)
        self.waiting_since: float | None = None
        self.bar = rich.progress.Progress(
            rich.progress.TextColumn("{task.description}"),
            rich.progress.BarColumn(bar_width=24),
            rich.progress.TextColumn("{task.completed}/{task.total}"),
            rich.progress.TextColumn("loss {task.fields[loss]} · {task.fields[rate]} images/s · {task.fields[compiles]} compiles"),
            rich.progress.TimeRemainingColumn(compact=True),
            _StateColumn(self),
            console=self.console,
            disable=quiet,
        )
        self.task = self.bar.add_task("starting", total=steps, loss="–", rate="–", compiles=0)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Around calls that compile when the program is new."""
        self.waiting_since = time.monotonic()
        try:
            yield
        finally:
            self.waiting_since = None

    def progress(self, step: int, description: str, loss: float | None, rate: float) -> None:
        """Moves the bar to `step`."""
        self.device.update()
        text = "–" if loss is None else f"{loss:.4f}"
        self.bar.update(self.task, completed=step, description=description, loss=text, rate=f"{rate:,.0f}", compiles=len(self.device.compiles))

    def line(self, text: str) -> None:
        """Prints one line above the bar."""
        self.console.print(text, highlight=False)


def complain(message: str) -> None:
    """Prints why the run can't go on."""
    print(f"train_vision: {message}", file=sys.stderr)


def summary(show: Show, rows: list[tuple[str, str]]) -> None:
    """Prints the run's results, then what the device did: compiles with their reasons, launches, fallbacks, memory."""
    device = show.device
    device.update()
    table = rich.table.Table(show_header=False, title="summary", title_justify="left")
    for name, value in rows:
        table.add_row(name, value)
    if device.kind == "xla":
        import thalweg
        from torch_xla.debug import metrics

        fallbacks = metrics.fallback_lines()
        table.add_row("compiles", f"{len(device.compiles)}, {sum(flush.seconds for flush in device.compiles):.1f} s in all")
        for number, flush in enumerate(device.compiles, 1):
            table.add_row(f"  {number}", f"{flush.why or 'new program'}; {flush.nodes} operations, {flush.seconds:.2f} s, {flush.reason} {flush.line}")
        table.add_row("launches", f"{device.launches():,}")
        table.add_row("fallbacks", str(sum(count for lines in fallbacks.values() for _, count in lines)))
        for name, lines in fallbacks.items():
            table.add_row(f"  {name}", ", ".join(f"{count}× {line}" for line, count in lines[:3]))
        table.add_row("peak memory", f"{thalweg.memory_info()['peak_live'] / 2**20:.1f} MiB")
    show.console.print(table)
