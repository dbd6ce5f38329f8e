"""Which language a session speaks: set by the client, or found once with enough evidence and then kept."""

from __future__ import annotations

from voice.engines.asr import Listen, Transcript

MIN_SECONDS = 1.0
MIN_PROBABILITY = 0.8
"""Whisper guesses wildly on a short "continue"; a second of speech that it is sure of is enough evidence."""


class LanguageLock:
    """The language of a session. ``current`` goes into every request; None makes the recogniser find out."""

    def __init__(self) -> None:
        self._found: str | None = None
        self.pinned: str | None = None

    @property
    def current(self) -> str | None:
        """The client's choice, else what was found."""
        return self.pinned or self._found

    def learn(self, request: Listen, transcript: Transcript) -> None:
        """Takes note of what a request without a language found."""
        probability = transcript.language_probability
        if self._found is not None or request.language is not None or probability is None or not transcript.text:
            return
        if request.seconds >= MIN_SECONDS and probability >= MIN_PROBABILITY:
            self._found = transcript.language
