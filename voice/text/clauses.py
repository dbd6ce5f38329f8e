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

    first_max_words: int = 5
    """The first clause ends here even without punctuation: each further word is 60-100 ms of silence on a small CPU."""

    min_words: int = 6
    """A comma ends a later clause only after this many words."""

    max_chars: int = 220
    """No clause is longer: synthesis time grows with it."""


_ABBREVIATION_LIST = """
mr mrs ms dr prof sr jr st vs etc e.g i.e a.m p.m u.s u.k no inc ltd co mt approx dept est fig gen hon rev
"""
_ABBREVIATIONS = frozenset(_ABBREVIATION_LIST.split())
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
            for space in spaces[limits.first_max_words - 1 :]:
                head = text[: space.start(1)]
                if not _inside_brackets(head) and not (head.endswith(".") and not _ends_sentence(head)):
                    end = space.end(1) if end is None else min(end, space.end(1))
                    break
        if end is None or end > limits.max_chars:
            if len(text) <= limits.max_chars:
                return end
            fitting = [match.end(1) for match in spaces if match.end(1) <= limits.max_chars]
            return fitting[-1] if fitting else limits.max_chars
        return end

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
