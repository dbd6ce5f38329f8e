"""Speech recognition: audio in, its words out. What a recogniser is asked, what it answers, and its interface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from voice.hearing.words import Word

RATE_HZ = 16_000


class Depth(Enum):
    """How much work a request is worth."""

    PARTIAL = "partial"
    """A look at the newest words: greedy, in the smallest window."""

    SETTLE = "settle"
    """Greedy too, over all words that are not settled yet, with their times and probabilities."""

    FINAL = "final"
    """The transcript: beam search in a window of at least 10 s, alternatives, times, and warmer tries for a loop."""


@dataclass(frozen=True, slots=True)
class Listen:
    """One request. ``samples``: 16 kHz, [-1, 1). ``language`` None: find out. ``vocabulary``: words to expect.

    ``timed`` asks a PARTIAL for the times of its words too; the other depths always have them.
    """

    samples: NDArray[np.float32]
    depth: Depth = Depth.FINAL
    language: str | None = None
    vocabulary: str | None = None
    timed: bool = False

    @property
    def seconds(self) -> float:
        """Length of the audio."""
        return len(self.samples) / RATE_HZ


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One reading of the audio and its log-probability (natural, of the whole text)."""

    text: str
    log_probability: float


@dataclass(frozen=True, slots=True)
class Transcript:
    """What was recognised, believed or not (``voice.hearing.gates`` judges). ``language`` is Whisper's code.

    ``alternatives`` are readings in other words, best first; ``words`` have times from the start of the audio, where
    they were asked for; ``language_probability`` is None when the language was given.
    """

    text: str
    language: str
    log_probability: float = 0.0
    no_speech_probability: float = 0.0
    average_log_probability: float = 0.0
    alternatives: tuple[Hypothesis, ...] = ()
    words: tuple[Word, ...] = ()
    language_probability: float | None = None


class SpeechRecognizer(Protocol):
    """A recogniser that many sessions share, behind one :class:`voice.schedule.recognition.RecognitionQueue`."""

    def fits(self, batch: Sequence[Listen], request: Listen) -> bool:
        """Whether ``request`` may join ``batch`` (not empty) in one pass, and the pass pays."""
        ...

    async def transcribe(self, batch: Sequence[Listen]) -> list[Transcript]:
        """The words of each request, in order. Raises whatever the model raises, for the batch as a whole."""
        ...

    def close(self) -> None:
        """Frees the model and its threads."""
        ...
