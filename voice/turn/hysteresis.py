"""From speech probabilities of single windows to "speech began here" and "last voiced here"."""

from __future__ import annotations

from dataclasses import dataclass

RATE_HZ = 16_000
"""The rate of the detector and of all positions."""

WINDOW_SAMPLES = 512
"""Samples a detector window: 32 ms."""

MIN_SPEECH_WINDOWS = 2
"""Voiced windows in a row before speech counts: 64 ms ignores clicks and still catches a word of 180 ms."""

RELEASE_MARGIN = 0.15
"""Speech goes on while the probability stays above the threshold less this, so that soft endings are not cut."""


@dataclass(frozen=True, slots=True)
class Onset:
    """Speech began; ``start`` is the first sample of the first voiced window."""

    start: int


class SpeechHysteresis:
    """Tracks whether the user is speaking.

    After an onset, ``last_voiced`` is the sample after the last voiced window; :meth:`silence` measures from there.
    """

    def __init__(self, threshold: float = 0.5) -> None:
        self.threshold = threshold
        self.last_voiced = 0
        self.speaking = False
        self._voiced_windows = 0

    def feed(self, probability: float, end: int) -> Onset | None:
        """Takes the probability of the window that ends before sample ``end``; returns an onset when speech begins."""
        if self.speaking:
            if probability >= self.threshold - RELEASE_MARGIN:
                self.last_voiced = end
            return None
        if probability < self.threshold:
            self._voiced_windows = 0
            return None
        self._voiced_windows += 1
        if self._voiced_windows < MIN_SPEECH_WINDOWS:
            return None
        self.speaking = True
        self.last_voiced = end
        return Onset(start=end - self._voiced_windows * WINDOW_SAMPLES)

    def silence(self, end: int) -> int:
        """Samples of silence up to ``end`` since the last voiced one, while an utterance is open."""
        return end - self.last_voiced

    def reset(self) -> None:
        """The utterance is over: the next voiced windows begin a new one."""
        self.speaking = False
        self._voiced_windows = 0
