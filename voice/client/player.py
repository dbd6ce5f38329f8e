"""When each sample of a reply would be heard, for a player that starts at once and never waits."""

from __future__ import annotations


class VirtualPlayer:
    """Plays a reply on paper. Times are seconds of one monotonic clock; lengths are samples at ``rate_hz``.

    An *underrun* is counted when audio arrives after what came before has been played out while the reply goes on:
    the listener heard a hole.
    """

    __slots__ = ("_ends_at_s", "_rate_hz", "gap_s", "underruns")

    def __init__(self, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._ends_at_s: float | None = None
        self.underruns = 0
        self.gap_s = 0.0
        """Silence that the underruns put into the reply, seconds."""

    def feed(self, samples: int, now_s: float) -> float:
        """Takes audio that arrived now; returns when its first sample is played."""
        starts_at_s = now_s
        if self._ends_at_s is not None:
            starts_at_s = max(now_s, self._ends_at_s)
            if samples > 0 and now_s > self._ends_at_s:
                self.underruns += 1
                self.gap_s += now_s - self._ends_at_s
        if samples > 0:
            self._ends_at_s = starts_at_s + samples / self._rate_hz
        return starts_at_s

    @property
    def ends_at_s(self) -> float | None:
        """When the last sample so far has been played; None before the first."""
        return self._ends_at_s
