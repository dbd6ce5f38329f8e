"""Words with times, and how two readings of overlapping audio join."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

LONGEST_OVERLAP = 6
"""Words that a reading may repeat from the text before its audio."""

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u3040-\u30ff\u3400-\u9fff"  # Thai, Lao, Burmese, kana, Han
_UNIT = re.compile(rf"\s*(?:[{_UNSPACED}][^\w\s]*|[^\s{_UNSPACED}]+)")


@dataclass(frozen=True, slots=True)
class Word:
    """A word as written, its place in samples at 16 kHz, and how sure the recogniser is of it.

    ``text`` holds its punctuation and the space before it, as Whisper's tokens do: scripts without spaces have none.
    ``probability`` is that of the word's least likely token, 0 to 1.
    """

    text: str
    start: int = 0
    end: int = 0
    probability: float = 1.0

    def moved(self, samples: int) -> Word:
        """The same word, ``samples`` later."""
        return replace(self, start=self.start + samples, end=self.end + samples)


def plain(text: str) -> str:
    """What two spellings of a word share: no case, no punctuation."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return "".join(character for character in folded if character.isalnum() or character == "'").strip("'")


def spoken(words: Sequence[Word]) -> list[str]:
    """The plain words."""
    return [plain(word.text) for word in words]


def text_of(words: Sequence[Word]) -> str:
    """The words as one line."""
    return "".join(word.text for word in words).strip()


def split(text: str) -> list[str]:
    """The pieces that are one word each, with the space before them; a character each in scripts without spaces."""
    return _UNIT.findall(f" {text.strip()}") if text.strip() else []


def retimed(words: Sequence[Word], text: str) -> list[Word]:
    """``text``, another reading of ``words``, with their times; what differs shares the gap it stands in."""
    pieces = split(text)
    times: list[Word | None] = [None] * len(pieces)
    matcher = difflib.SequenceMatcher(None, spoken(words), [plain(piece) for piece in pieces], autojunk=False)
    for block in matcher.get_matching_blocks():
        for offset in range(block.size):
            times[block.b + offset] = words[block.a + offset]
    result: list[Word] = []
    for index, piece in enumerate(pieces):
        known = times[index]
        if known is None:
            following = next((later.start for later in times[index:] if later is not None), None)
            start = result[-1].end if result else (words[0].start if words else 0)
            last = following if following is not None else max(start, words[-1].end if words else start)
            gap = next((n for n, later in enumerate(times[index:]) if later is not None), len(pieces) - index)
            known = Word(piece, start, start + max(0, last - start) // gap, 0.0)
        result.append(replace(known, text=piece))
    return result


def agreed(before: Sequence[Word], now: Sequence[Word]) -> int:
    """How many words two successive readings begin with alike (LocalAgreement-2, Macháček et al. 2023)."""
    count = 0
    for old, new in zip(before, now, strict=False):
        if plain(old.text) != plain(new.text):
            break
        count += 1
    return count


def without_overlap(context: Sequence[Word], words: Sequence[Word]) -> Sequence[Word]:
    """``words`` less what they repeat of the end of ``context``, whose audio they should not hold."""
    for count in range(min(LONGEST_OVERLAP, len(context), len(words)), 0, -1):
        if spoken(context[-count:]) == spoken(words[:count]):
            return words[count:]
    return words


def continuation(settled: Sequence[Word], words: Sequence[Word]) -> Sequence[Word]:
    """What follows ``settled`` in ``words``, another reading of the same audio that may differ in places.

    The cut is where the settled words match the beginning of ``words`` best (Levenshtein distance in words).
    """
    wanted, read = spoken(settled), spoken(words)
    if read[: len(wanted)] == wanted:
        return words[len(wanted) :]
    previous = list(range(len(read) + 1))
    for row, word in enumerate(wanted, start=1):
        current = [row]
        for column, other in enumerate(read, start=1):
            current.append(min(previous[column] + 1, current[column - 1] + 1, previous[column - 1] + (word != other)))
        previous = current
    best = min(range(len(previous)), key=lambda count: (previous[count], abs(count - len(wanted))))
    return words[best:]
