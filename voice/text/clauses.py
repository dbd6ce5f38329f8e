"""Cuts streaming text into clauses: the first one early, so that speech can start; the others at natural breaks.

The result depends on the text alone, never on how it was split into deltas.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClauseLimits:
    """Where a clause may end, in words and characters."""

    first_min_words: int = 3
    """A comma ends the first clause only after this many words: "Sure," alone is a blip."""

    first_phrase_words: int = 4
    """The first clause may end after this many words where the next one opens a new phrase ("... | because ...")."""

    first_max_words: int = 9
    """The first clause ends here wherever that is: each further word is 60-100 ms of silence on a small CPU. Cut
    anywhere at five words, "The capital of France is | Paris." was heard as "France's, Harris"."""

    min_words: int = 6
    """A comma ends a later clause only after this many words."""

    max_chars: int = 220
    """No clause is longer: synthesis time grows with it."""


_ABBREVIATION_LIST = """
mr mrs ms dr prof sr jr st vs etc e.g i.e a.m p.m u.s u.k no inc ltd co mt approx dept est fig gen hon rev
"""
_ABBREVIATIONS = frozenset(_ABBREVIATION_LIST.split())
_PHRASE_OPENER_LIST = """
because since although but so if when while where which who whereas during after before until in on at by for from with
without into through about between over under than as
"""
_PHRASE_OPENERS = frozenset(_PHRASE_OPENER_LIST.split())
_LEANING_LIST = "a an the is are was were of to and or not very my your his her its our their"
_LEANS_ON_THE_NEXT = frozenset(_LEANING_LIST.split())
_WHOLE_WORD = re.compile(r"[^\W\d_]+(?=[\W\d_])")
_SENTENCE_END = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s)|[。！？]")
_LIST_NUMBER = re.compile(r"\d{1,2}\.")
_CLAUSE_END = re.compile(r"[,;:—–](?=\s)|[，；：、]")


class ClauseCutter:
    """Feeds on deltas and gives clauses. The clauses joined are exactly the text fed in."""

    def __init__(self, limits: ClauseLimits | None = None) -> None:
        self._limits = limits or ClauseLimits()
        self._text = ""
        self._first = True

    def feed(self, delta: str) -> list[str]:
        """Takes more text; returns the clauses that are complete now."""
        self._text += delta
        clauses = []
        while (cut := self._cut()) is not None:
            clauses.append(self._text[:cut])
            self._text = self._text[cut:]
            self._first = False
        return clauses

    def flush(self) -> str:
        """The rest, when no more text comes; may be empty."""
        rest, self._text = self._text, ""
        return rest

    def _cut(self) -> int | None:
        """Length of the first complete clause of the pending text, trailing spaces included, or None."""
        limits = self._limits
        text = self._text
        end = self._punctuated_end()
        spaces = list(re.finditer(r"\S(\s+)(?=\S)", text))
        if self._first:
            phrase = self._phrase_end(spaces)
            if phrase is not None:
                end = phrase if end is None else min(end, phrase)
        if end is None or end > limits.max_chars:
            if len(text) <= limits.max_chars:
                return end
            fitting = [match.end(1) for match in spaces if match.end(1) <= limits.max_chars]
            return fitting[-1] if fitting else limits.max_chars
        return end

    def _phrase_end(self, spaces: list[re.Match[str]]) -> int | None:
        """Where the first clause may end without punctuation: before a new phrase, or at the word limit."""
        limits = self._limits
        for words, space in enumerate(spaces, start=1):
            head = self._text[: space.start(1)]
            if words < limits.first_phrase_words or _inside_brackets(head):
                continue
            if head.endswith(".") and not _ends_sentence(head):
                continue
            if words >= limits.first_max_words:
                return space.end(1)
            following = _WHOLE_WORD.match(self._text, space.end(1))
            before = head.split()[-1].lower()
            if following is None or before in _LEANS_ON_THE_NEXT or before in _PHRASE_OPENERS:
                continue
            if following.group().lower() in _PHRASE_OPENERS:
                return space.end(1)
        return None

    def _punctuated_end(self) -> int | None:
        """The first place where punctuation ends a clause and more text follows."""
        limits = self._limits
        text = self._text
        min_words = limits.first_min_words if self._first else limits.min_words
        marks = sorted(
            [(match.end(), True) for match in _SENTENCE_END.finditer(text)]
            + [(match.end(), False) for match in _CLAUSE_END.finditer(text)]
        )
        for position, is_sentence in marks:
            following = re.compile(r"\s*").match(text, position)
            assert following is not None  # \s* matches anywhere
            if following.end() == len(text):
                return None  # what follows may still change the reading, and flush() takes care of the end
            head = text[:position]
            if _inside_brackets(head):
                continue
            if is_sentence and _ends_sentence(head):
                return following.end()
            if not is_sentence and len(head.split()) >= min_words:
                return following.end()
        return None


def _ends_sentence(head: str) -> bool:
    """Whether the mark at the end of ``head`` ends a sentence: not so after an abbreviation, initial or list number."""
    words = head.split()
    last = words[-1].rstrip("\"'”’)]").lstrip("\"'“‘([")
    if not last.endswith(".") or last.endswith(".."):
        return True
    stem = last.rstrip(".").lower()
    if stem in _ABBREVIATIONS or (len(stem) == 1 and stem.isalpha() and stem != "i"):
        return False
    in_list = len(words) == 1 or words[-2][-1] in ".!?:" or _LIST_NUMBER.fullmatch(words[0]) is not None
    return not (in_list and stem.isdigit() and len(stem) <= 2)


def _inside_brackets(head: str) -> bool:
    """Whether a bracket is open at the end of ``head``; forgotten ones are ignored after a while."""
    recent = head[-120:]
    return recent.count("(") > recent.count(")") or recent.count("[") > recent.count("]")
