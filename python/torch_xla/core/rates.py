"""Rates of progress, e.g. images a second, over the last interval and since the start."""

import time


class RateTracker:
    """Counts things and gives their rate.

    smooth_factor: weight of the past in `rate()`; 0 gives the last interval's rate alone, values near 1 a slow average.
    """

    def __init__(self, smooth_factor: float | None = None) -> None:
        self._smooth_factor = 0.4 if smooth_factor is None else smooth_factor
        self._start = self._last = time.monotonic()
        self._count = self._last_count = 0.0
        self._rate: float | None = None

    def add(self, count: float) -> None:
        """Counts `count` more things as done now."""
        self._count += count

    def rate(self) -> float:
        """Things a second, averaged; each call ends an interval."""
        now = time.monotonic()
        elapsed = now - self._last
        if elapsed > 0:
            current = (self._count - self._last_count) / elapsed
            self._rate = current if self._rate is None else self._smooth_factor * self._rate + (1 - self._smooth_factor) * current
            self._last, self._last_count = now, self._count
        return self._rate or 0.0

    def global_rate(self) -> float:
        """Things a second since this object was made."""
        elapsed = time.monotonic() - self._start
        return self._count / elapsed if elapsed > 0 else 0.0
