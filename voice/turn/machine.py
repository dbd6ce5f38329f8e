"""The turn machine: detector windows and the client's wishes in, turn actions out.

This is the simple form: speech, then a fixed silence, ends a turn. It keeps no audio and no clock; its caller maps
positions to audio and actions to engines.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from voice.turn.hysteresis import RATE_HZ, WINDOW_SAMPLES, SpeechHysteresis


@dataclass(frozen=True, slots=True)
class TurnPolicy:
    """How turns are found. ``None`` for the whole policy means push-to-talk: only the client ends a turn."""

    threshold: float = 0.5
    """Speech probability from which a window is voiced."""

    prefix_ms: int = 300
    """Audio kept from before the onset, so that no first syllable is lost."""

    silence_ms: int = 500
    """Silence that ends the turn."""

    early_ms: int = 96
    """Silence after which the turn is likely over: the final begins on a guess, and is ready when the turn really ends.
    A guess that was wrong still settles words."""

    unchanged_ms: int = 2_300
    """Speech in which the recogniser finds no new words for so long is noise: the turn ends."""

    max_turn_ms: int = 60_000
    """A turn ends here whatever happens (steady noise looks like speech)."""


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """The user began to speak: the turn's audio begins at ``start`` (prefix included)."""

    start: int


@dataclass(frozen=True, slots=True)
class LikelyEnd:
    """The user has paused: ``[start, end)`` is the turn unless speech goes on. ``last_voiced`` as in TurnEnded."""

    start: int
    end: int
    last_voiced: int


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn is over: its audio is ``[start, end)``. ``last_voiced`` ends its last voiced window, if any."""

    start: int
    end: int
    last_voiced: int | None
    by_client: bool = False


Action = SpeechStarted | LikelyEnd | TurnEnded


class TurnMachine:
    """Decides when the user's turn begins and ends."""

    def __init__(self, policy: TurnPolicy | None) -> None:
        self._policy = policy
        self._speech = SpeechHysteresis((policy or TurnPolicy()).threshold)
        self._free = 0  # audio before this belongs to an earlier turn, or was cleared
        self._start = 0  # of the open utterance
        self._last_voiced: int | None = None  # since _free, for turns that the client ends
        self._now = 0
        self._first_voiced: int | None = None  # since _free
        self._paused_at = 0  # last voiced sample before the pause that LikelyEnd was said of
        self._words_changed = self._words_confirmed = 0

    @property
    def policy(self) -> TurnPolicy | None:
        """The policy in force; None when only the client ends turns."""
        return self._policy

    @property
    def user_speaking(self) -> bool:
        """Whether an utterance is open that this machine will end by itself."""
        return self._policy is not None and self._speech.speaking

    @property
    def open_from(self) -> int | None:
        """Where the audio to recognise begins (prefix included); None while nothing was said that is not committed."""
        if self.user_speaking:
            return self._start
        if self._policy is None and self._first_voiced is not None:
            return self._with_prefix(self._first_voiced)
        return None

    @property
    def last_voiced(self) -> int | None:
        """The sample after the last voiced one of what was not committed yet."""
        return self._last_voiced

    @property
    def keep_from(self) -> int:
        """Audio before this position will never be asked for."""
        if self._policy is None:
            return self._free
        if self._speech.speaking:
            return self._start
        # Windows that are voiced but do not count as speech yet lie before the prefix.
        reach = self._policy.prefix_ms * RATE_HZ // 1000 + 4 * WINDOW_SAMPLES
        return max(self._free, self._now - reach)

    def configure(self, policy: TurnPolicy | None) -> None:
        """Takes a new policy. An utterance that is open stays open unless there is none to end it."""
        self._policy = policy
        self._speech.threshold = (policy or TurnPolicy()).threshold
        if policy is None:
            if self._speech.speaking:
                self._free = max(self._free, self._start)
            self._speech.reset()

    def window(self, probability: float, end: int) -> list[Action]:
        """One detector window, ending before sample ``end``."""
        self._now = end
        onset = self._speech.feed(probability, end)
        if self._speech.speaking:
            self._last_voiced = self._speech.last_voiced
        if onset is not None and self._first_voiced is None:
            self._first_voiced = onset.start
        policy = self._policy
        if policy is None:
            return self._pushed_to_talk(end)
        actions: list[Action] = []
        if onset is not None:
            self._start = self._with_prefix(onset.start)
            self._words_changed = self._words_confirmed = end
            actions.append(SpeechStarted(self._start))
        if self._speech.speaking:
            silent = self._speech.silence(end) >= policy.silence_ms * RATE_HZ // 1000
            too_long = end - self._start >= policy.max_turn_ms * RATE_HZ // 1000
            wordless = self._words_confirmed - self._words_changed >= policy.unchanged_ms * RATE_HZ // 1000
            if silent or too_long or wordless:
                actions.append(self._end(self._start, end))
            else:
                actions += self._paused(self._start, end, policy.early_ms)
        return actions

    def words(self, changed_at: int, confirmed_at: int) -> None:
        """What the recogniser knows of the open turn: its words last changed at one position and stood at the other."""
        if self.user_speaking:
            self._words_changed = max(self._words_changed, changed_at)
            self._words_confirmed = max(self._words_confirmed, confirmed_at)

    def starve(self) -> list[Action]:
        """No audio has come for a while: an open utterance ends as if silence had come."""
        if not self.user_speaking:
            return []
        return [self._end(self._start, self._now)]

    def commit(self, position: int) -> TurnEnded | None:
        """The client ends the turn at ``position`` (all audio so far). None when there is no audio to commit."""
        start = self._start if self.user_speaking else self.keep_from
        if position <= start:
            return None
        return replace(self._end(start, position), by_client=True)

    def clear(self, position: int) -> None:
        """The client throws away all audio so far."""
        self._free = self._now = position
        self._last_voiced = self._first_voiced = None
        self._speech.reset()

    def _pushed_to_talk(self, end: int) -> list[Action]:
        """No silence ends the turn; the length limit still holds, or memory would grow."""
        defaults = TurnPolicy()
        if end - self._free >= defaults.max_turn_ms * RATE_HZ // 1000:
            return [self._end(self._free, end)]
        if not self._speech.speaking:
            return []
        likely = self._paused(self.open_from or self._free, end, defaults.early_ms)
        if self._speech.silence(end) > RATE_HZ // 2:
            self._speech.reset()
        return likely

    def _paused(self, start: int, end: int, early_ms: int) -> list[Action]:
        """LikelyEnd, once a pause."""
        voiced = self._speech.last_voiced
        if voiced == self._paused_at or self._speech.silence(end) < early_ms * RATE_HZ // 1000:
            return []
        self._paused_at = voiced
        return [LikelyEnd(start=start, end=end, last_voiced=voiced)]

    def _with_prefix(self, onset: int) -> int:
        return max(self._free, onset - (self._policy or TurnPolicy()).prefix_ms * RATE_HZ // 1000)

    def _end(self, start: int, end: int) -> TurnEnded:
        voiced = self._last_voiced
        ended = TurnEnded(start=start, end=end, last_voiced=voiced if voiced is not None and voiced > start else None)
        self._free = end
        self._now = max(self._now, end)
        self._last_voiced = self._first_voiced = None
        self._speech.reset()
        return ended
