"""Small corrections to what a phonemizer makes of a clause, so that it is understood. Pure."""

from __future__ import annotations

from collections.abc import Sequence

_SIBILANTS = frozenset("szʃʒ")
_SECONDARY_STRESS = "ˌ"


def separate_is(phonemes: Sequence[str]) -> list[str]:
    """English IPA phonemes with a light stress on "is" where the word before ends in a hissing sound.

    Unstressed, "France is" sounds just like "France's" or "Francis": of 24 times that Piper said "The capital of France
    is Paris.", Whisper understood 6; with the stress, all 24.
    """
    result: list[str] = []
    for index, phoneme in enumerate(phonemes):
        is_word = list(phonemes[index : index + 4]) == [" ", "ɪ", "z", " "]
        result.append(phoneme)
        if is_word and index > 0 and phonemes[index - 1] in _SIBILANTS:
            result.append(_SECONDARY_STRESS)
    return result
