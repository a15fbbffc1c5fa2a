"""Why the device ran when it did, and why it compiled: the flush log as Python objects and as text."""

import dataclasses
from typing import Any

from thalweg import _C


@dataclasses.dataclass(frozen=True)
class Flush:
    """One time the device ran what was pending."""

    reason: str
    """What asked: "sync", "value read", "budget" …"""
    compiled: bool
    """Whether a new program had to be compiled."""
    why: str
    """Why it compiled ("first time", "input 3 changed from [64,1,8,8] to [61,1,8,8]"); empty when the program was known."""
    line: str
    """The Python line that asked."""
    nodes: int
    """Operations in the program."""
    launches: int
    """Programs launched; 1 unless operations ran on PyTorch's kernels in between."""
    seconds: float
    """Seconds it took to compile."""

    @classmethod
    def of(cls, record: dict[str, Any]) -> "Flush":
        """Reads one entry of the extension's log."""
        return cls(
            reason=str(record.get("reason", "")),
            compiled=bool(record.get("compiled")),
            why=str(record.get("why", "") or ""),
            line=str(record.get("line", "") or ""),
            nodes=int(record.get("nodes", 0)),
            launches=int(record.get("launches", 1)),
            seconds=float(record.get("seconds", 0.0)),
        )


class Explanation(list[Flush]):
    """Flushes, oldest first; prints as a table."""

    def __str__(self) -> str:
        if not self:
            return "nothing has run on the device yet"
        lines = [f"{'flushed by':<16} {'ops':>6} {'launches':>8}  {'compiled because':<60} at"]
        for flush in self:
            why = f"{flush.why or 'new program'} ({flush.seconds:.2f} s)" if flush.compiled else "-"
            lines.append(f"{flush.reason:<16} {flush.nodes:>6} {flush.launches:>8}  {why:<60} {flush.line}")
        return "\n".join(lines)

    __repr__ = __str__


def flushes(last: int | None = None) -> Explanation:
    """The last flushes (all that are remembered by default), oldest first."""
    records = [Flush.of(record) for record in _C.flush_log()]
    return Explanation(records if last is None else records[len(records) - min(last, len(records)) :])


def explain(last: int = 10, *, compiles_only: bool = False) -> Explanation:
    """The last flushes with their reasons and Python lines, as a list that prints as a table. `compiles_only` leaves out those whose program was known."""
    chosen = Explanation(flush for flush in flushes() if flush.compiled or not compiles_only)
    return Explanation(chosen[-last:] if last > 0 else [])
