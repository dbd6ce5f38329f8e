"""Judging spoken replies: right, in English, not looping, short, fit to be said aloud. Pure."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from voice.errors import VoiceError

QUESTIONS = Path(__file__).with_name("questions.toml")

SHORT_WORDS = 40
"""A spoken reply of more words is a lecture: about 15 s of speech."""

LOOP_WORDS = 4
"""Length of the word groups counted to find loops."""

LOOP_REPEATS = 3
"""Times that one group of words may not come in a reply."""


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


FOREIGN = _word_set(
    "le la les des du une est sont dans pour qui que quoi avec sur pas vous nous je il elle elles mais ou où et au aux "
    "ce cette ces se sa son ses leur très plus voici oui el los las una es son en por para con del y lo como está der "
    "die das und ist nicht ein eine mit von zu auf für"
)
"""Frequent short words of French, Spanish and German."""

ENGLISH = _word_set(
    "the a an is are was of to in and it that for you i on with as this by at from or be can have has not there they "
    "your my we he she its do does what which how so if one"
)
"""Frequent short words of English. One that is in both lists counts for both."""

MARKUP = re.compile(r"\*\*|__|`|^\s*(#+|[-*•]|\d+[.)])\s|\]\(|https?://|<\w+|\\[(\[]", re.MULTILINE)

ELISION = re.compile(r"(l|d|j|c|n|qu)['’]\w")
"""French words that begin with a shortened one: l'étoile, c'est."""

SENTENCE_END = re.compile(r"[.!?\n]+")

WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


@dataclass(frozen=True, slots=True)
class Turn:
    """One thing the user says, and what a right reply says."""

    ask: str
    accept: tuple[re.Pattern[str], ...]
    """One of these must be found in the reply."""

    reject: tuple[re.Pattern[str], ...] = ()
    """None of these may be."""


@dataclass(frozen=True, slots=True)
class Question:
    """A conversation of one or two turns."""

    id: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is good about one reply."""

    right: bool
    """The known answer is in it, and no known wrong one."""

    english: bool
    steady: bool
    """It does not loop."""

    plain: bool
    """No lists, headings, code, links: nothing that cannot be said aloud."""

    words: int

    @property
    def good(self) -> bool:
        """What the score counts: right, in English, not looping."""
        return self.right and self.english and self.steady


def load_questions(path: Path = QUESTIONS) -> list[Question]:
    """Reads a questions file (its format is described in questions.toml). Raises VoiceError where it is wrong."""
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
        questions = [
            Question(entry["id"], tuple(_turn(turn) for turn in entry["turns"])) for entry in table["conversation"]
        ]
    except OSError as error:
        raise VoiceError(f"cannot read {path} ({error.strerror}): name a questions file") from error
    except KeyError as error:
        raise VoiceError(
            f"{path}: a conversation lacks {error}: each needs an id and turns with ask and accept"
        ) from error
    except (tomllib.TOMLDecodeError, re.error, TypeError) as error:
        raise VoiceError(f"{path} is not a questions file ({error}): see the comment in {QUESTIONS.name}") from error
    if not questions:
        raise VoiceError(f"{path} holds no questions")
    return questions


def judge(turn: Turn, reply: str) -> Verdict:
    """Everything there is to say about one reply."""
    return Verdict(
        right=is_right(turn, reply),
        english=is_english(reply),
        steady=not is_looping(reply),
        plain=MARKUP.search(reply) is None,
        words=len(words(reply)),
    )


def is_right(turn: Turn, reply: str) -> bool:
    """Whether an accepted answer is in the reply's first `SHORT_WORDS` words, and no rejected one is."""
    matches = list(WORD.finditer(reply))
    end = matches[SHORT_WORDS - 1].end() if len(matches) > SHORT_WORDS else len(reply)
    text = reply[:end].strip()
    return any(p.search(text) for p in turn.accept) and not any(p.search(text) for p in turn.reject)


def is_english(reply: str) -> bool:
    """Whether no sentence of the reply is in another language, by its short words.

    A single foreign word is what was asked for ("You say bonjour."); two of the short ones in a sentence that has no
    more English ones are a switch ("L'Étoile, la Marseillaise!"). So is a reply mostly in another script.
    """
    letters = [c for c in reply if c.isalpha()]
    if sum(c.isascii() for c in letters) < 0.8 * len(letters):
        return False
    for sentence in SENTENCE_END.split(reply):
        found = words(sentence)
        foreign = sum(word in FOREIGN or ELISION.match(word) is not None for word in found)
        if foreign >= 2 and foreign >= sum(word in ENGLISH for word in found):
            return False
    return True


def is_looping(reply: str) -> bool:
    """Whether the reply says the same thing again and again.

    A sentence of three words or more said twice, a group of four words said three times, one word four times running.
    """
    sentences = Counter(tuple(words(part)) for part in SENTENCE_END.split(reply))
    if any(count > 1 and len(sentence) >= 3 for sentence, count in sentences.items()):
        return True
    found = words(reply)
    groups = Counter(zip(*(found[start:] for start in range(LOOP_WORDS)), strict=False))
    if any(count >= LOOP_REPEATS for count in groups.values()):
        return True
    return any(len(set(found[start : start + 4])) == 1 for start in range(len(found) - 3))


def words(text: str) -> list[str]:
    """The words of a text, lower case, without punctuation."""
    return WORD.findall(text.lower())


def _turn(entry: dict[str, object]) -> Turn:
    return Turn(str(entry["ask"]), _patterns(entry["accept"]), _patterns(entry.get("reject", ())))


def _patterns(entries: object) -> tuple[re.Pattern[str], ...]:
    if isinstance(entries, str) or not isinstance(entries, Sequence):
        raise TypeError("accept and reject are lists of regular expressions")
    return tuple(re.compile(entry, re.IGNORECASE) for entry in entries)
