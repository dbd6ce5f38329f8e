"""The recordings that `voice bench asr` listens to: which they are, and their samples."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voice.audio.formats import INT16_SCALE, pcm16_to_float
from voice.audio.resample import resample
from voice.audio.wav import read_wav
from voice.errors import AudioFileError, one_line

RATE_HZ = 16_000
"""What Whisper listens at."""

_MANIFEST = "manifest.jsonl"
_SUFFIXES = (".wav", ".flac", ".ogg", ".mp3")
_LOUDEST = np.float32(1.0 - 1.0 / INT16_SCALE)
"""The largest sample that 16 bits hold: resampling rings past full scale, and a microphone cannot send that."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A recording that was not read yet."""

    name: str
    path: Path
    transcript: str | None = None
    language: str | None = None
    speaker: str | None = None
    rate: int | None = None
    """Hz, of a headerless ``.raw`` file (16 kHz where nothing is said); other files say it themselves."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording, ready to be heard."""

    name: str
    """As shown: the manifest's path, or the file name."""

    samples: NDArray[np.float32]
    """16 kHz mono, in [-1, 1)."""

    transcript: str | None
    language: str | None
    speaker: str | None


def find(source: str, *, only: str | None = None, limit: int | None = None, language: str | None = None) -> list[Entry]:
    """The recordings of a folder or a manifest (JSON lines); at least one.

    ``only`` is a file that lists the names to take, in its order; ``language`` and then ``limit`` cut that down.
    Raises AudioFileError, one line, for what cannot be used.
    """
    if limit is not None and limit < 1:
        raise AudioFileError(f"a limit of {limit} leaves no recordings: give 1 or more")
    place = Path(source)
    if place.is_dir():
        manifest = place / _MANIFEST
        entries = list(_read_manifest(manifest)) if manifest.exists() else _list_folder(place)
    else:
        entries = list(_read_manifest(place))
    if only is not None:
        entries = _choose(entries, Path(only), source)
    if language is not None:
        entries = [entry for entry in entries if (entry.language or "").casefold() == language.casefold()]
    if not entries:
        wanted = "speech" if language is None else f'speech with the language "{language}"'
        raise AudioFileError(
            f"{source} holds no {wanted}: name a folder with {', '.join(_SUFFIXES)} files, or a manifest of JSON lines"
        )
    return entries[:limit]


def _list_folder(folder: Path) -> list[Entry]:
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES and path.is_file())
    except OSError as error:
        raise AudioFileError(f"{folder} cannot be read: {error.strerror or error}; check its permissions") from None
    return [Entry(path.name, path) for path in files]


def _read_manifest(manifest: Path) -> Iterator[Entry]:
    """The entries that are speech: collections list noise and room responses too."""
    for number, line in _lines(manifest, "name a folder of recordings or a manifest of JSON lines"):
        wanted = f'{manifest}, line {number}: expected an object such as {{"path": "q1.wav", "transcript": "..."}}'
        try:
            fields = json.loads(line)
        except ValueError:
            raise AudioFileError(wanted) from None
        if not isinstance(fields, dict) or not isinstance(fields.get("path"), str):
            raise AudioFileError(wanted)
        if fields.get("kind") not in (None, "speech"):
            continue
        rate = fields.get("sample_rate")
        if rate is not None and (type(rate) is not int or rate <= 0):
            raise AudioFileError(f"{manifest}, line {number}: sample_rate must be a whole number of Hz, not {rate!r}")
        yield Entry(
            fields["path"],
            _resolve(manifest.parent, fields["path"]),
            transcript=_text(fields.get("transcript")),
            language=_text(fields.get("language")),
            speaker=_text(fields.get("speaker")),
            rate=rate,
        )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _resolve(folder: Path, path: str) -> Path:
    """Relative to the manifest, or (collections with one manifest a subfolder) to the folder above, as `bench turn`."""
    beside, above = folder / path, folder.parent / path
    return above if not beside.exists() and above.exists() else beside


def _choose(entries: Sequence[Entry], only: Path, source: str) -> list[Entry]:
    by_name = {entry.name: entry for entry in entries}
    chosen: list[Entry] = []
    for number, line in _lines(only, "name a text file with one manifest path a line"):
        name = line.strip()
        if name.startswith("#"):
            continue
        if name not in by_name:
            raise AudioFileError(f"{only}, line {number}: {source} has no speech named {name}; correct the list")
        chosen.append(by_name[name])
    if not chosen:
        raise AudioFileError(f"{only} lists nothing: write one manifest path a line")
    return chosen


def _lines(path: Path, remedy: str) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers."""
    try:
        text = _read(path).decode("utf-8")
    except UnicodeDecodeError:
        raise AudioFileError(f"{path} cannot be read: it is not text; {remedy}") from None
    # Not splitlines: JSON strings may hold characters that it takes for line ends, such as U+2028.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise AudioFileError(f"{path} does not exist: check the path") from None
    except IsADirectoryError:
        raise AudioFileError(f"{path} is a folder: name a file in it") from None
    except OSError as error:
        raise AudioFileError(f"{path} cannot be read: {error.strerror or error}; check its permissions") from None
    except ValueError:  # a NUL byte in the name
        raise AudioFileError(f"{str(path)!r} is not a file name: correct it") from None


def load(entry: Entry) -> Recording:
    """Reads the samples. Raises AudioFileError, one line, when the file is missing, damaged or empty."""
    suffix = entry.path.suffix.lower()
    if suffix == ".wav":
        samples = resample(*read_wav(entry.path), RATE_HZ)
    elif suffix == ".raw":
        samples = resample(_read_raw(entry.path), entry.rate or RATE_HZ, RATE_HZ)
    else:
        samples = _decode(entry.path)
    if samples.size == 0:
        raise AudioFileError(f"{entry.path} holds no sound that can be read: record it again or leave it out")
    samples = np.clip(samples, np.float32(-1.0), _LOUDEST)
    return Recording(entry.name, samples, entry.transcript, entry.language, entry.speaker)


def _read_raw(path: Path) -> NDArray[np.float32]:
    content = _read(path)
    if len(content) % 2:
        raise AudioFileError(f"{path} ends inside a sample: it is damaged or not 16-bit; copy or convert it again")
    return pcm16_to_float(content)


def _decode(path: Path) -> NDArray[np.float32]:
    """Compressed files, through the FFmpeg that faster-whisper brings: 16 kHz mono."""
    content = _read(path)
    if not content:
        raise AudioFileError(f"{path} is empty: record it again or choose another file")
    try:
        from faster_whisper.audio import decode_audio
    except ImportError:
        raise AudioFileError(
            f"{path} needs faster-whisper to be decoded: pip install 'voice[cpu]', or convert it to WAV"
        ) from None
    try:
        return np.asarray(decode_audio(str(path), sampling_rate=RATE_HZ), dtype=np.float32)
    except Exception as error:  # PyAV's own errors, and IndexError for a film without sound
        raise AudioFileError(
            f"{path} cannot be decoded: {one_line(error)}; convert it, for example with"
            f" `ffmpeg -i {path.name} -ac 1 -ar 16000 recording.wav`"
        ) from None
