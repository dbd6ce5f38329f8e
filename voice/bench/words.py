"""How far a transcript is from the words that were said."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WordErrors:
    """Substitutions, insertions and deletions, and the words of the reference. Adds up over utterances."""

    errors: int
    words: int

    @property
    def rate(self) -> float:
        """Word error rate: 0 is perfect; more than 1 is possible."""
        return self.errors / self.words if self.words else float(self.errors > 0)

    def __add__(self, other: WordErrors) -> WordErrors:
        return WordErrors(self.errors + other.errors, self.words + other.words)


def words_of(text: str) -> list[str]:
    """Lower-case words without punctuation; apostrophes inside words stay."""
    plain = unicodedata.normalize("NFKC", text).lower().replace("’", "'")
    kept = (character if character.isalnum() or character == "'" else " " for character in plain)
    return [word for word in (raw.strip("'") for raw in "".join(kept).split()) if word]


def word_errors(reference: str, heard: str) -> WordErrors:
    """Levenshtein distance in words."""
    wanted, got = words_of(reference), words_of(heard)
    previous = list(range(len(got) + 1))
    for row, word in enumerate(wanted, start=1):
        current = [row]
        for column, other in enumerate(got, start=1):
            current.append(min(previous[column] + 1, current[column - 1] + 1, previous[column - 1] + (word != other)))
        previous = current
    return WordErrors(previous[-1], len(wanted))
