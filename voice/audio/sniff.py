"""Says in words what a file that should have been a WAV file looks like."""

from __future__ import annotations

_SIGNATURES: tuple[tuple[int, bytes, str], ...] = (
    (0, b"ID3", "it looks like MP3"),
    (0, b"OggS", "it looks like Ogg (Vorbis or Opus)"),
    (0, b"fLaC", "it looks like FLAC"),
    (4, b"ftyp", "it looks like MP4/M4A"),
    (0, b"\x1aE\xdf\xa3", "it looks like WebM/Matroska"),
    (0, b"FORM", "it looks like AIFF"),
    (0, b".snd", "it looks like Sun AU"),
    (0, b"RIFX", "it is a big-endian WAV (RIFX)"),
    (8, b"AVI ", "it looks like an AVI video"),
    (0, b"caff", "it looks like Core Audio (CAF)"),
    (0, b"#!AMR", "it looks like AMR"),
    (0, b"0&\xb2u", "it looks like WMA"),
    (0, b"PK\x03\x04", "it looks like a ZIP archive"),
    (0, b"\x1f\x8b", "it looks like gzip"),
    (0, b"%PDF", "it looks like a PDF"),
    (0, b"\x89PNG", "it looks like a PNG image"),
    (0, b"\xff\xd8\xff", "it looks like a JPEG image"),
    (0, b"version https://git-lfs", "it is a Git LFS pointer, not the file itself (run `git lfs pull`)"),
)


def describe_content(content: bytes) -> str:
    """What the first bytes of a file say it is, as a clause: "it looks like MP3"."""
    for offset, signature, words in _SIGNATURES:
        if content[offset : offset + len(signature)] == signature:
            return words
    if len(content) >= 2 and content[0] == 0xFF and content[1] & 0xE0 == 0xE0:
        return "it looks like AAC" if content[1] & 0xF6 == 0xF0 else "it looks like MP3"
    if _is_text(content[:4096]):
        start = content[:512].lstrip().lower()
        return "it looks like a web page" if start.startswith((b"<!doctype", b"<html")) else "it looks like text"
    return "it has no RIFF header (headerless samples, perhaps)"


def _is_text(start: bytes) -> bool:
    try:
        text = start.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(start) - 4:  # not merely a character cut in two at the end
            return False
        text = start[: error.start].decode("utf-8")
    return bool(text) and all(character.isprintable() or character in "\r\n\t\f" for character in text)
