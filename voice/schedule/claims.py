"""The order of claims on a shared processor."""

from __future__ import annotations

from enum import IntEnum


class Claim(IntEnum):
    """What a piece of work is for; the lower value goes first."""

    FINAL = 0
    """A turn has ended and its answer waits."""

    RUNNING_SPEECH = 1
    """A turn goes on and must settle its words, or every later step and its final get dearer."""

    PARTIAL = 2
    """Words to show while the user speaks. May be skipped."""

    SPECULATION = 3
    """A guess that the turn is over. Free to come late; becomes FINAL when the guess was right."""
