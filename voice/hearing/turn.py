"""One turn as it is heard: which audio to look at next, which words are settled, what can be shown.

Pure: readings go in, words come out. All positions are samples at 16 kHz since the session began.

Whisper reads windows, not streams, and its cost is the words it writes. So three kinds of looks are taken:

- *partial*: the newest second or two, from a cut behind words that two looks agreed on (LocalAgreement-2, Macháček et
  al. 2023). Cheap, and only shown: cutting so close costs accuracy.
- *settle*: all audio that is still open, about once in four seconds. Words that it is sure of, and that lie far enough
  behind the end of its audio, are settled: they never change again.
- *final*: the open audio with a beam. Begun in a pause, it is the transcript if the turn ends there, else a settle.

Audio in front of settled words is closed (trimmed), which keeps every look as short in a long turn as in a short one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from voice.engines.asr import RATE_HZ, Depth
from voice.hearing.words import Word, agreed, continuation, spoken, text_of, without_overlap


def _samples(seconds: float) -> int:
    return round(seconds * RATE_HZ)


FIRST_LOOK = _samples(0.25)
"""Speech before the first look: a syllable or two."""

LOOK_EVERY = _samples(0.2)
LOOK_FOR_FIRST_WORD_EVERY = _samples(0.1)

SETTLE_AFTER = _samples(4.0)
"""Unsettled speech without a pause; a pause settles words by the final that is begun in it."""

CUT_BEHIND = _samples(0.6)
"""Words that end later than this before the end of the audio may be cut off, and do not move the cut."""

TIMED_FROM = _samples(1.5)
LONGEST_TAIL = _samples(3.5)
"""A partial longer than TIMED_FROM asks for word times, to move its cut; at LONGEST_TAIL it moves without agreement."""

SURE = 0.5
SURE_BEHIND_PAUSE = _samples(0.5)
SURE_BEHIND_SPEECH = _samples(2.0)
"""A word is settled when its least likely token has this probability and it ends so long before the last speech in a
pause, or before the end of the audio while speech runs. Chosen on 54 utterances apart from the benchmark's list: final
WER as without settling. LocalAgreement-2 with a second of lag cost 2.5 points there."""

AGREED_AFTER = _samples(4.0)
OLD_AFTER = _samples(8.0)
"""Less likely words are settled once two settles agree on them and they are this old, or simply this old."""

TRIM_AFTER = _samples(8.0)
TRIM_KEEPS = _samples(3.0)
SENTENCE_BONUS = _samples(0.3)
"""More open audio than TRIM_AFTER is cut at the widest gap between settled words that leaves TRIM_KEEPS; the end of a
sentence counts as a gap that much wider."""


@dataclass(frozen=True, slots=True)
class Step:
    """A look at ``[start, end)``. ``settled``: words that were settled before ``start``, whose audio is not in it."""

    depth: Depth
    start: int
    end: int
    settled: int = 0
    timed: bool = False


class TurnHearing:
    """The words of one turn so far."""

    def __init__(self, start: int, onset: int) -> None:
        """``start``: of the turn's audio; ``onset``: where speech was found."""
        self.settled: list[Word] = []
        self._trim = start
        self._trimmed = 0
        self._cut = start
        self._tentative: list[Word] = []  # agreed on, before the cut
        self._tail: list[Word] = []
        self._unsettled: list[Word] = []  # of the settle before
        self._looked_at, self._looked = onset, False
        self._settled_at = onset
        self._pace = 0
        self.changed_at = onset
        self.confirmed_at = onset

    @property
    def shown(self) -> list[Word]:
        """The words as known now; those behind ``settled`` may change."""
        return [*self.settled, *self._tentative, *self._tail]

    def due(self, now: int, last_voiced: int) -> Step | None:
        """The next look, if it is time for one at ``now``; speech so far ended at ``last_voiced``."""
        every = LOOK_EVERY if self.shown else LOOK_FOR_FIRST_WORD_EVERY if self._looked else FIRST_LOOK
        if now - self._looked_at < max(every, self._pace) or self._looked_at >= last_voiced:
            return None
        self._looked_at, self._looked = now, True
        if now - self._settled_at >= SETTLE_AFTER and (self._tentative or self._tail):
            return Step(Depth.SETTLE, self._trim, now, self._trimmed, timed=True)
        return Step(Depth.PARTIAL, self._cut, now, len(self.settled), timed=now - self._cut >= TIMED_FROM)

    def final(self, end: int) -> Step:
        """The look for the transcript of a turn that ends at ``end``."""
        self._looked_at = max(self._looked_at, end)
        return Step(Depth.FINAL, self._trim, end, self._trimmed, timed=True)

    def pace(self, latency_s: float) -> bool:
        """Looks come no faster than their results: takes the latency of the last; whether it widens the step."""
        self._pace = _samples(1.5 * latency_s)
        return self._pace > LOOK_EVERY

    def take(self, step: Step, words: Sequence[Word], last_voiced: int) -> list[Word]:
        """The words read in a look (times since the session began); returns those that are settled by it."""
        before = spoken(self.shown)
        settled: list[Word] = []
        if step.depth is not Depth.PARTIAL:
            settled = self._settle(step, words, last_voiced)
        elif step.start == self._cut:  # else a settle has overtaken it
            self._extend(step, words)
        self.confirmed_at = max(self.confirmed_at, step.end)
        if spoken(self.shown) != before:
            self.changed_at = self.confirmed_at
        return settled

    def completed(self, step: Step, words: Sequence[Word]) -> list[Word]:
        """The whole turn when ``words`` is what the final look read."""
        overlap = self.settled[step.settled :]
        if overlap:
            return [*self.settled, *continuation(overlap, words)]
        return [*self.settled, *without_overlap(self.settled, words)]

    def _extend(self, step: Step, words: Sequence[Word]) -> None:
        earlier = self._tail
        self._tail = list(without_overlap([*self.settled, *self._tentative], words))
        if not step.timed:
            return
        closed = step.end - CUT_BEHIND
        count = _until(self._tail[: agreed(earlier, self._tail)], closed)
        if count == 0 and step.end - self._cut > LONGEST_TAIL:
            count = _until(self._tail, closed)
            if count == 0:  # nothing but noise there
                self._cut = step.end - TIMED_FROM
        if count:
            self._tentative += self._tail[:count]
            self._tail = self._tail[count:]
            self._cut = self._tentative[-1].end

    def _settle(self, step: Step, words: Sequence[Word], last_voiced: int) -> list[Word]:
        fresh = self.completed(step, words)[len(self.settled) :]
        paused = step.depth is Depth.FINAL
        certain = last_voiced - SURE_BEHIND_PAUSE if paused else step.end - SURE_BEHIND_SPEECH
        alike = agreed(self._unsettled, fresh)
        count = 0
        for word in fresh:
            age = step.end - word.end
            sure = word.probability >= SURE or age >= OLD_AFTER or (count < alike and age >= AGREED_AFTER)
            if word.end > certain or not sure:
                break
            count += 1
        settled, rest = fresh[:count], fresh[count:]
        self.settled += settled
        self._unsettled = rest
        self._settled_at = step.end
        if step.end > self._cut:
            closed = _until(rest, step.end - CUT_BEHIND)
            self._tentative, self._tail = rest[:closed], rest[closed:]
            known = [*self.settled, *self._tentative]
            self._cut = max(self._trim, known[-1].end) if known else self._cut
        else:  # the looks have gone on while this one was read
            self._tentative = [*rest, *(word for word in self._tentative if word.start >= step.end)]
            self._tail = list(without_overlap(self._tentative, self._tail))
        self._close(step.end, rest)
        return settled

    def _close(self, now: int, rest: Sequence[Word]) -> None:
        if now - self._trim <= TRIM_AFTER:
            return
        latest = now - TRIM_KEEPS
        followers = [*self.settled[1:], *rest[:1]]
        best: tuple[int, int, int] | None = None  # gap, words before it, where to cut
        for index in range(self._trimmed, len(self.settled)):
            word = self.settled[index]
            end = word.end
            begin = max(end, followers[index].start) if index < len(followers) else end
            if not self._trim < end <= latest:
                continue
            gap = begin - end + (SENTENCE_BONUS if word.text.rstrip("\"'”’)").endswith((".", "?", "!", "。")) else 0)
            if best is None or gap >= best[0]:
                best = gap, index + 1, min((end + begin) // 2, latest)
        if best is not None:
            _, self._trimmed, self._trim = best
        elif not self.settled[self._trimmed :] and now - self._trim > 2 * TRIM_AFTER:
            self._trim = now - TRIM_AFTER  # no words in it, or OLD_AFTER had settled them


def _until(words: Sequence[Word], end: int) -> int:
    """How many of ``words`` end before ``end``."""
    count = 0
    while count < len(words) and words[count].end <= end:
        count += 1
    return count


def snapshot(hearing: TurnHearing) -> tuple[str, int]:
    """The text as known now, and how many of its first characters are stable."""
    return text_of(hearing.shown), len(text_of(hearing.settled))
