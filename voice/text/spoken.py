"""What of a clause is said aloud: markup, symbols that nobody pronounces and template tokens are taken out."""

from __future__ import annotations

import re

_TEMPLATE_TOKENS = re.compile(r"<\|[^|<>]{1,40}\|>|</?s>|\[/?INST\]")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_LIST_MARK = re.compile(r"(?m)^\s*(?:[-*+•]|#{1,6})\s+")
_EMPHASIS = re.compile(r"(\*{1,3}|_{2,3}|~~|`+)(?=\S)|(?<=\S)(\*{1,3}|_{2,3}|~~|`+)")
_PICTOGRAPHS = re.compile(
    "[\U0001f000-\U0001faff\u2600-\u27bf\u2190-\u21ff\u2b00-\u2bff\ufe0f\u200b-\u200d\ufeff\U000e0020-\U000e007f]"
)
_SPEAKABLE = re.compile(r"\w")


def to_spoken(clause: str) -> str:
    """The words of ``clause`` for the synthesizer; empty when nothing in it can be said (``"..."``, an emoji)."""
    text = _TEMPLATE_TOKENS.sub(" ", clause)
    text = _LINK.sub(r"\1", text)
    text = _LIST_MARK.sub("", text)
    text = _EMPHASIS.sub("", text)
    text = _PICTOGRAPHS.sub(" ", text)
    text = " ".join(text.split())
    return text if _SPEAKABLE.search(text) else ""
