"""Reading WAV files as they occur in the field, and writing plain ones.

``read_wav`` takes what recorders, telephones and streaming programs really write: any rate, width and channel count,
WAVE_FORMAT_EXTENSIBLE, G.711, RF64, odd chunk padding, sizes that were never filled in. What it cannot read it names
in one line, with what to do about it.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voice.audio.formats import pcm16_to_float
from voice.audio.g711 import alaw_decode, ulaw_decode
from voice.audio.sniff import describe_content
from voice.errors import AudioFileError

_MAX_BYTES = 1 << 30
"""A gigabyte is 9 hours of 16 kHz speech: more is a mistake."""

_STREAMING_SIZE = 0x7FFF0000
"""Programs that write into a pipe put 0x7FFFxxxx or 0xFFFFxxxx where the size of the data belongs."""

_PCM, _FLOAT, _ALAW, _ULAW, _EXTENSIBLE = 0x0001, 0x0003, 0x0006, 0x0007, 0xFFFE
_CODEC_NAMES = {0x0002: "ADPCM", 0x0011: "IMA ADPCM", 0x0031: "GSM 6.10", 0x0055: "MP3", 0x0161: "WMA", 0x00FF: "AAC"}
_MIN_HZ, _MAX_HZ = 1000, 768_000


def read_wav(path: str | Path) -> tuple[NDArray[np.float32], int]:
    """The samples of a WAV file, mixed down to mono (float32 in [-1, 1]), and their rate in Hz.

    Raises AudioFileError, one line, when the file is missing, unreadable, empty, truncated, compressed or no WAV file.
    """
    name = str(path)
    content = _read_file(Path(path))
    if not content:
        raise AudioFileError(f"{name} is empty: record it again or choose another file")
    riff = content[:4] in (b"RIFF", b"RF64", b"BW64")
    if not riff or (len(content) >= 12 and content[8:12] != b"WAVE"):
        raise AudioFileError(
            f"{name} is not a WAV file: {describe_content(content)}; convert it, for example with"
            f" `ffmpeg -i {Path(path).name} -ac 1 -ar 16000 question.wav`"
        )
    fmt, data = _find_chunks(name, content)
    codec, channels, rate_hz, block = _parse_format(name, fmt)
    frames = len(data) // block
    if frames == 0:
        raise AudioFileError(f"{name} holds no sound: its header is followed by no samples; record it again")
    samples = _decode(data[: frames * block], codec, block // channels)
    if channels > 1:
        samples = samples.reshape(frames, channels).mean(axis=1, dtype=np.float32)
    return np.ascontiguousarray(samples, dtype=np.float32), rate_hz


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        raise AudioFileError(f"{path} does not exist: check the path") from None
    except IsADirectoryError:
        raise AudioFileError(f"{path} is a folder: name a WAV file in it") from None
    except OSError as error:
        raise AudioFileError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError:  # a NUL byte in the name
        raise AudioFileError(f"{str(path)!r} is not a file name") from None
    if len(content) > _MAX_BYTES:
        raise AudioFileError(f"{path} is larger than 1 GiB: cut it into shorter files")
    return content


def _find_chunks(name: str, content: bytes) -> tuple[bytes, bytes]:
    """Walks the chunks; returns the bodies of ``fmt `` and ``data``."""
    fmt: bytes | None = None
    data_size_64: int | None = None
    position = 12
    while position + 8 <= len(content):
        identity = content[position : position + 4]
        size = int.from_bytes(content[position + 4 : position + 8], "little")
        start = position + 8
        if identity == b"data":
            if fmt is None:
                raise AudioFileError(f"{name} has no format header before its samples: it is damaged, record it again")
            if size == 0xFFFFFFFF and data_size_64 is not None:
                size = data_size_64
            return fmt, _data_body(name, content, start, size, _block_of(fmt))
        body = content[start : start + size]
        if identity == b"fmt " and len(body) == size:
            fmt = body
        elif identity == b"ds64" and len(body) >= 16:
            data_size_64 = int.from_bytes(body[8:16], "little")
        position = _skip_padding(content, start + size, size)
    raise AudioFileError(f"{name} is truncated: it ends inside its header, before any samples; copy or record it again")


def _skip_padding(content: bytes, position: int, size: int) -> int:
    """Chunks start at even offsets, but some writers forget the padding byte after an odd one."""
    if size % 2 == 0:
        return position
    following = content[position : position + 4]
    forgotten = len(following) == 4 and all(0x20 <= byte < 0x7F for byte in following)
    return position if forgotten else position + 1


def _data_body(name: str, content: bytes, start: int, size: int, block: int) -> bytes:
    there = len(content) - start
    streaming = size >= _STREAMING_SIZE or (size == 0 and not _is_chunk_chain(content, start))
    if streaming or size <= there:
        return content[start:] if streaming else content[start : start + size]
    if size - there < block:  # less than one sample is missing: nothing that anybody can hear
        return content[start:]
    raise AudioFileError(
        f"{name} is truncated: its header promises {size} bytes of sound and {there} are there; copy or record it again"
    )


def _is_chunk_chain(content: bytes, position: int) -> bool:
    """Whether the rest of the file is chunks to the last byte (then a data size of 0 means what it says)."""
    while position + 8 <= len(content):
        if not all(0x20 <= byte < 0x7F for byte in content[position : position + 4]):
            return False
        size = int.from_bytes(content[position + 4 : position + 8], "little")
        position += 8 + size + size % 2
    return position in (len(content), len(content) + 1)


def _block_of(fmt: bytes) -> int:
    """Bytes of one sample of all channels, as the header says; 1 when it does not."""
    return max(1, int.from_bytes(fmt[12:14], "little"))


def _parse_format(name: str, fmt: bytes) -> tuple[int, int, int, int]:
    """Codec, channels, rate in Hz, bytes of one sample of all channels."""
    if len(fmt) < 16:
        raise AudioFileError(f"{name} is truncated: its format header is too short; copy or record it again")
    codec, channels, rate_hz, _, block, bits = struct.unpack("<HHIIHH", fmt[:16])
    if codec == _EXTENSIBLE and len(fmt) >= 26:
        codec = int.from_bytes(fmt[24:26], "little")
    if channels == 0 or not _MIN_HZ <= rate_hz <= _MAX_HZ:
        raise AudioFileError(f"{name} is damaged: its header says {channels} channels at {rate_hz} Hz; record it again")
    if codec in (_ALAW, _ULAW):
        bits = 8
    if codec not in (_PCM, _FLOAT, _ALAW, _ULAW):
        codec_name = _CODEC_NAMES.get(codec, f"codec 0x{codec:04X}")
        raise AudioFileError(
            f"{name} is a compressed WAV file ({codec_name}); convert it, for example with"
            f" `ffmpeg -i {Path(name).name} -c:a pcm_s16le question.wav`"
        )
    width = block // channels if block and block % channels == 0 else (bits + 7) // 8
    widths = {_PCM: (1, 2, 3, 4), _FLOAT: (4, 8), _ALAW: (1,), _ULAW: (1,)}[codec]
    if width not in widths:
        raise AudioFileError(
            f"{name} has samples of {bits} bits in {width} bytes, which is not supported; convert it, for example with"
            f" `ffmpeg -i {Path(name).name} -c:a pcm_s16le question.wav`"
        )
    return codec, channels, rate_hz, width * channels


def _decode(data: bytes, codec: int, width: int) -> NDArray[np.float32]:
    """Interleaved samples as float32. Integers narrower than their container are left-aligned in it, as WAV says."""
    if codec == _ULAW:
        return pcm16_to_float(ulaw_decode(data))
    if codec == _ALAW:
        return pcm16_to_float(alaw_decode(data))
    if codec == _FLOAT:
        floats = np.frombuffer(data, dtype="<f4" if width == 4 else "<f8").astype(np.float64)
        return np.clip(np.where(np.isfinite(floats), floats, 0.0), -1.0, 1.0).astype(np.float32)
    if width == 1:  # the only unsigned width
        return ((np.frombuffer(data, dtype=np.uint8).astype(np.float32) - 128.0) / 128.0).astype(np.float32)
    if width == 2:
        return pcm16_to_float(data)
    if width == 3:
        padded = np.zeros((len(data) // 3, 4), dtype=np.uint8)
        padded[:, 1:] = np.frombuffer(data, dtype=np.uint8).reshape(-1, 3)
        return (padded.view("<i4")[:, 0] / 2147483648.0).astype(np.float32)
    return (np.frombuffer(data, dtype="<i4") / 2147483648.0).astype(np.float32)


def write_wav(path: str | Path, samples: NDArray[np.int16], rate_hz: int) -> None:
    """Writes 16-bit mono samples. The file appears whole or not at all; an existing one is replaced.

    Raises AudioFileError, one line, when the target cannot be written.
    """
    body = np.ascontiguousarray(samples, dtype="<i2").tobytes()
    header = b"RIFF" + struct.pack("<I", 36 + len(body)) + b"WAVEfmt "
    header += struct.pack("<IHHIIHH", 16, _PCM, 1, rate_hz, rate_hz * 2, 2, 16)
    header += b"data" + struct.pack("<I", len(body))
    target = Path(path)
    try:
        if _is_special(target):  # a pipe or a device cannot be replaced
            with target.open("wb") as file:
                file.write(header + body)
            return
        target = target.resolve()
        partial = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            with partial.open("wb") as file:
                file.write(header + body)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(target)
        except OSError:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise
    except (OSError, ValueError) as error:
        raise AudioFileError(_why_unwritable(path, error)) from None


def check_writable(path: str | Path) -> None:
    """Raises the AudioFileError that ``write_wav`` would, without writing: to fail before a long run, not after."""
    target = Path(path)
    try:
        if target.is_dir():
            raise IsADirectoryError
        if _is_special(target):
            return
        folder = target.resolve().parent
        if not folder.is_dir():
            raise FileNotFoundError
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
    except (OSError, ValueError) as error:
        raise AudioFileError(_why_unwritable(path, error)) from None


def _is_special(target: Path) -> bool:
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _why_unwritable(path: str | Path, error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{path} cannot be written: its folder does not exist; create it or choose another path"
    if isinstance(error, IsADirectoryError):
        return f"{path} is a folder: name the WAV file to write"
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return f"{path} cannot be written: {reason}; choose another path"
