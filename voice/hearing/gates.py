"""Truth gates: nothing that Whisper invents from silence, noise, hum or music becomes a transcript."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from itertools import pairwise

from voice.hearing.words import plain

# The limits of Whisper's reference code; log-probabilities are natural, means per token.
NO_SPEECH_PROBABILITY = 0.6
NO_SPEECH_LOG_PROBABILITY = -1.0
MAX_COMPRESSION_RATIO = 2.4
MIN_COMPRESSED_BYTES = 64
FASTEST_WORDS_PER_S = 8.0  # 3 to 4 are fast speech already
FEWEST_WORDS = 3.0  # even the shortest clip may hold so many: the cut around a "yes please do" can be tight
LONGEST_PHRASE = 12  # words
WORD_REPEATS = 5  # people do say "no no no no no"; a phrase said more than twice is a loop

# Scripts without spaces: a character counts as a part of a word. Thai, Lao, Burmese and Khmer spell out their vowels.
_CJK = "\u3005\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff"
_SOUTH_EAST = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_UNIT = re.compile(rf"(?P<cjk>[{_CJK}])|(?P<south_east>[{_SOUTH_EAST}])|[^\s{_CJK}{_SOUTH_EAST}]+")
_SHARES = {"cjk": 0.5, "south_east": 0.25, None: 1.0}

_NOTES = "♪♫♩♬🎵🎶"
_TAG = re.compile(
    rf"\([^()]*\)|（[^（）]*）|\[[^\[\]]*\]|［[^［］]*］|【[^【】]*】|[{_NOTES}]+[^{_NOTES}]*[{_NOTES}]+|[{_NOTES}]"
    # Not the asterisks of "f***": they would take the words up to the next ones with them.
    r"|(?<![\w*])\*+[^*]+\*+"
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What may be believed of a text ("" when rejected), and why that is not the whole (None when it is)."""

    text: str
    reason: str | None  # rejected: "no_speech", "only_vocabulary" or "too_fast"; less a part: "looped" or "tags"


@dataclass(frozen=True, slots=True)
class _Unit:
    """A word, or a character of a script without spaces, and what follows it; ``share`` is of a word, 0 to 1."""

    text: str
    key: str
    share: float


def judge(
    text: str,
    *,
    no_speech_probability: float,
    average_log_probability: float,
    seconds: float,
    vocabulary: str | None = None,
) -> Verdict:
    """What to believe of a decode of ``seconds`` of audio. ``average_log_probability``: natural, per token.

    ``vocabulary`` is what the decoder was told to expect (free text or a comma list): heard in silence, it is an echo.
    """
    said, tagged = without_tags(text), _untagged(text) != text
    if not said:
        return Verdict("", "tags" if tagged else None)
    doubtful = no_speech_probability > NO_SPEECH_PROBABILITY
    if doubtful and average_log_probability < NO_SPEECH_LOG_PROBABILITY:
        return Verdict("", "no_speech")
    if doubtful and _vocabulary(said) <= _vocabulary(vocabulary or ""):
        return Verdict("", "only_vocabulary")
    # Before the loops go: how much was invented says more than what it shrinks to.
    most = max(FEWEST_WORDS, FASTEST_WORDS_PER_S * seconds) if seconds > 0.0 else 0.0
    if _count(_units(said)) > most:
        return Verdict("", "too_fast")
    once = collapsed(said)
    return Verdict(once, "looped" if once != said else "tags" if tagged else None)


def without_tags(text: str) -> str:
    """The text less "[BLANK_AUDIO]", "(music)", "*coughs*" and "♪ lyrics ♪"; "" when nothing speakable is left."""
    rest = _untagged(text)
    if not any(character.isalnum() for character in rest):
        return ""
    mended = re.sub(r"\s+(?=[,.;:!?]+(\s|$))", "", " ".join(rest.split())).lstrip(" ,.;:!?")
    return text.strip() if rest == text else mended


def looped(text: str) -> bool:
    """Whether a text repeats itself the way a failed decode does (gzip ratio: the Whisper paper, section 4.5)."""
    data, units = text.encode(), _units(text)
    if len(data) >= MIN_COMPRESSED_BYTES and len(data) / len(zlib.compress(data)) > MAX_COMPRESSION_RATIO:
        return True
    return _count(_kept(units)) * 2.0 < _count(units)


def collapsed(text: str) -> str:
    """The text with each loop cut to two rounds: of a phrase said over twice, or of a word said over five times."""
    units = _units(text)
    kept = _kept(units)
    if len(kept) == len(units):
        return text
    joined = kept[0].text
    for before, unit in pairwise(kept):
        # Words that a character of a script without spaces stood between must not become one.
        glued = before.share == unit.share == 1.0 and not before.text[-1].isspace()
        joined += " " + unit.text if glued else unit.text
    return joined.strip()


def _untagged(text: str) -> str:
    while (rest := _TAG.sub(" ", text)) != text:  # again for what was nested
        text = rest
    return text


def _units(text: str) -> list[_Unit]:
    """The text cut before each word; lone punctuation stays with the word before it."""
    words = [match for match in _UNIT.finditer(text) if any(character.isalnum() for character in match[0])]
    cuts = [0, *(word.start() for word in words[1:]), len(text)]
    parts = [text[start:end] for start, end in pairwise(cuts)]
    # A few letters are punctuation once normalised: they are their own key.
    return [_Unit(part, plain(part) or part, _SHARES[word.lastgroup]) for word, part in zip(words, parts, strict=False)]


def _count(units: list[_Unit]) -> float:
    return sum(unit.share for unit in units)


def _vocabulary(text: str) -> set[str]:
    return {unit.key for unit in _units(re.sub(r"[,;|/，；、]", " ", text))}


def _kept(units: list[_Unit]) -> list[_Unit]:
    """The units that stay: one pass with a stack that never holds a loop, so what is left has none."""
    longest = int(LONGEST_PHRASE / min((unit.share for unit in units), default=1.0))
    kept: list[_Unit] = []
    # For each kept unit and period: how many units up to it, without a gap, equal the one a period before.
    alike = [[0] * (longest + 1)]
    at = 0
    while at < len(units):
        now = [0] * (longest + 1)
        for period in range(1, min(longest, len(kept)) + 1):
            now[period] = alike[-1][period] + 1 if kept[-period].key == units[at].key else 0
        kept.append(units[at])
        alike.append(now)
        at += 1
        if not (period := next((size for size in range(1, longest + 1) if _too_often(kept, now, size)), 0)):
            continue
        phrase = [unit.key for unit in kept[-period:]]
        del kept[period - now[period] :], alike[period - now[period] :]
        while (rest := [unit.key for unit in units[at : at + period]]) == phrase:
            at += period
        # One more round at the very end, cut off by the token limit, perhaps within a word.
        *whole, last = rest or [""]
        if at + len(rest) == len(units) and whole == phrase[: len(whole)] and phrase[len(whole)].startswith(last):
            break
    return kept


def _too_often(kept: list[_Unit], alike: list[int], period: int) -> bool:
    """Whether the end of ``kept`` is a loop of ``period`` units."""
    if alike[period] < 2 * period:
        return False
    words = _count(kept[-period:])
    if words > LONGEST_PHRASE or alike[period] < period * (2 if words > 1.0 else int(WORD_REPEATS / words)):
        return False
    # A phrase that is itself a shorter one said over is judged as that.
    return not any(period % part == 0 and alike[part] >= period - part for part in range(1, period))
