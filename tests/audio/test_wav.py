from __future__ import annotations

import os
import struct
import threading
import wave
from pathlib import Path

import numpy as np
import pytest

from voice.audio import alaw_decode, read_wav, ulaw_decode, write_wav
from voice.audio.wav import check_writable
from voice.errors import AudioFileError

RAMP = np.array([0, 1, -1, 100, -100, 32767, -32768, 12345], dtype=np.int16)
GUID_TAIL = b"\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71"


def fmt_chunk(codec: int, channels: int, rate_hz: int, bits: int, container_bits: int | None = None) -> bytes:
    block = channels * (container_bits or bits) // 8
    body = struct.pack("<HHIIHH", codec, channels, rate_hz, rate_hz * block, block, bits)
    return b"fmt " + struct.pack("<I", len(body)) + body


def extensible_chunk(codec: int, channels: int, rate_hz: int, bits: int) -> bytes:
    block = channels * bits // 8
    body = struct.pack("<HHIIHH", 0xFFFE, channels, rate_hz, rate_hz * block, block, bits)
    body += struct.pack("<HHIH", 22, bits, 0, codec) + GUID_TAIL
    return b"fmt " + struct.pack("<I", len(body)) + body


def riff(*chunks: bytes, size: int | None = None) -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body) if size is None else size) + body


def data_chunk(data: bytes, size: int | None = None) -> bytes:
    return b"data" + struct.pack("<I", len(data) if size is None else size) + data


def read(tmp_path: Path, content: bytes) -> tuple[list[float], int]:
    path = tmp_path / "a.wav"
    path.write_bytes(content)
    samples, rate_hz = read_wav(path)
    assert samples.dtype == np.float32
    return samples.tolist(), rate_hz


def failure(tmp_path: Path, content: bytes) -> str:
    path = tmp_path / "bad.wav"
    path.write_bytes(content)
    with pytest.raises(AudioFileError) as caught:
        read_wav(path)
    message = str(caught.value)
    assert "\n" not in message and "bad.wav" in message
    return message


def test_what_we_write_we_read(tmp_path: Path) -> None:
    write_wav(tmp_path / "a.wav", RAMP, 24000)
    samples, rate_hz = read_wav(tmp_path / "a.wav")
    assert rate_hz == 24000
    assert samples.tolist() == (RAMP / 32768).tolist()
    with wave.open(str(tmp_path / "a.wav")) as other:  # the standard library's opinion
        assert (other.getnchannels(), other.getsampwidth(), other.getframerate()) == (1, 2, 24000)
        assert other.readframes(100) == RAMP.tobytes()
    assert [path.name for path in tmp_path.iterdir()] == ["a.wav"]


@pytest.mark.parametrize("rate_hz", [8000, 11025, 16000, 22050, 44100, 48000, 96000, 12345])
def test_any_rate(tmp_path: Path, rate_hz: int) -> None:
    assert read(tmp_path, riff(fmt_chunk(1, 1, rate_hz, 16), data_chunk(b"\0\0" * 10)))[1] == rate_hz


@pytest.mark.parametrize(
    ("codec", "bits", "data"),
    [
        (1, 8, bytes([128, 192, 64, 0])),
        (1, 16, struct.pack("<4h", 0, 16384, -16384, -32768)),
        (1, 24, b"\x00\x00\x00" + b"\x00\x00\x40" + b"\x00\x00\xc0" + b"\x00\x00\x80"),
        (1, 32, struct.pack("<4i", 0, 2**30, -(2**30), -(2**31))),
        (3, 32, struct.pack("<4f", 0, 0.5, -0.5, -1.0)),
        (3, 64, struct.pack("<4d", 0, 0.5, -0.5, -1.0)),
    ],
)
def test_any_width_plain_and_extensible(tmp_path: Path, codec: int, bits: int, data: bytes) -> None:
    for fmt in (fmt_chunk(codec, 1, 16000, bits), extensible_chunk(codec, 1, 16000, bits)):
        assert read(tmp_path, riff(fmt, data_chunk(data)))[0] == [0.0, 0.5, -0.5, -1.0]


def test_twelve_bits_left_aligned_in_sixteen_and_24_in_32(tmp_path: Path) -> None:
    assert read(tmp_path, riff(fmt_chunk(1, 1, 16000, 12, 16), data_chunk(struct.pack("<h", 16384))))[0] == [0.5]
    assert read(tmp_path, riff(fmt_chunk(1, 1, 16000, 24, 32), data_chunk(struct.pack("<i", 2**30))))[0] == [0.5]


def test_floats_beyond_full_scale_and_no_numbers(tmp_path: Path) -> None:
    data = struct.pack("<4f", 1.7, -2.0, float("nan"), float("inf"))
    assert read(tmp_path, riff(fmt_chunk(3, 1, 16000, 32), data_chunk(data)))[0] == [1.0, -1.0, 0.0, 0.0]


def test_g711(tmp_path: Path) -> None:
    codes = bytes(range(256))
    for codec, decode in ((6, alaw_decode), (7, ulaw_decode)):
        samples, rate_hz = read(tmp_path, riff(fmt_chunk(codec, 1, 8000, 8), data_chunk(codes)))
        assert rate_hz == 8000
        assert samples == (decode(codes) / 32768).tolist()


@pytest.mark.parametrize("channels", [2, 6])
def test_channels_are_mixed(tmp_path: Path, channels: int) -> None:
    frame = struct.pack(f"<{channels}h", *([16384] + [0] * (channels - 1)))
    samples, _ = read(tmp_path, riff(fmt_chunk(1, channels, 48000, 16), data_chunk(frame * 5)))
    assert samples == pytest.approx([0.5 / channels] * 5)


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 0x7FFFFFFF, 0xFFFFFFFF - 36, 0x7FFFF000])
def test_sizes_of_streaming_writers(tmp_path: Path, size: int) -> None:
    content = riff(fmt_chunk(1, 1, 16000, 16), data_chunk(RAMP.tobytes(), size), size=0xFFFFFFFF)
    assert len(read(tmp_path, content)[0]) == RAMP.size


def test_other_chunks_and_odd_padding(tmp_path: Path) -> None:
    odd = b"LIST" + struct.pack("<I", 3) + b"abc"
    for padding in (b"\0", b""):  # some writers forget it
        content = riff(odd + padding, fmt_chunk(1, 1, 16000, 16), odd + padding, data_chunk(RAMP.tobytes()), odd)
        assert len(read(tmp_path, content)[0]) == RAMP.size


def test_chunks_after_the_samples_are_not_sound(tmp_path: Path) -> None:
    content = riff(fmt_chunk(1, 1, 16000, 16), data_chunk(RAMP.tobytes()), b"LIST" + struct.pack("<I", 4) + b"abcd")
    assert len(read(tmp_path, content)[0]) == RAMP.size


def test_rf64(tmp_path: Path) -> None:
    ds64 = b"ds64" + struct.pack("<IQQQI", 28, 0, RAMP.nbytes, RAMP.size, 0)
    tail = b"LIST" + struct.pack("<I", 4) + b"abcd"
    content = riff(ds64, fmt_chunk(1, 1, 16000, 16), data_chunk(RAMP.tobytes(), 0xFFFFFFFF), tail)
    assert len(read(tmp_path, b"RF64" + content[4:])[0]) == RAMP.size


def test_missing_empty_and_folder(tmp_path: Path) -> None:
    with pytest.raises(AudioFileError, match=r"nothing\.wav does not exist"):
        read_wav(tmp_path / "nothing.wav")
    with pytest.raises(AudioFileError, match="folder"):
        read_wav(tmp_path)
    assert "is empty" in failure(tmp_path, b"")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable(tmp_path: Path) -> None:
    write_wav(tmp_path / "a.wav", RAMP, 16000)
    (tmp_path / "a.wav").chmod(0)
    with pytest.raises(AudioFileError, match="Permission denied"):
        read_wav(tmp_path / "a.wav")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"ID3\x04" + b"\0" * 50, "MP3"),
        (b"\xff\xfb\x90\x64" + b"\0" * 50, "MP3"),
        (b"\xff\xf1\x50\x80" + b"\0" * 50, "AAC"),
        (b"OggS" + b"\0" * 50, "Ogg"),
        (b"fLaC" + b"\0" * 50, "FLAC"),
        (b"\0\0\0\x20ftypM4A " + b"\0" * 50, "MP4"),
        (b"FORM\0\0\0\x20AIFF" + b"\0" * 50, "AIFF"),
        (b"RIFF\0\0\0\x20AVI " + b"\0" * 50, "AVI"),
        (b"hello, this is text\n", "text"),
        ("naïve text, cut in a character: é".encode()[:-1], "text"),
        (b"<!DOCTYPE html><html>404</html>", "web page"),
        (b"\x00\x01\x02\x80" * 100, "no RIFF header"),
    ],
)
def test_files_of_another_kind_are_named(tmp_path: Path, content: bytes, words: str) -> None:
    message = failure(tmp_path, content)
    assert "not a WAV file" in message and words in message and "ffmpeg" in message


def test_every_cut_of_a_good_file_is_one_clear_line(tmp_path: Path) -> None:
    good = riff(fmt_chunk(1, 1, 16000, 16), data_chunk(RAMP.tobytes()))
    for size in range(4, len(good) - 1):
        message = failure(tmp_path, good[:size])
        assert "truncated" in message or (size < 4 and "not a WAV" in message), (size, message)


def test_half_a_sample_missing_is_no_reason_to_refuse(tmp_path: Path) -> None:
    good = riff(fmt_chunk(1, 1, 16000, 16), data_chunk(RAMP.tobytes()))
    assert len(read(tmp_path, good[:-1])[0]) == RAMP.size - 1


def test_no_samples(tmp_path: Path) -> None:
    assert "no sound" in failure(tmp_path, riff(fmt_chunk(1, 1, 16000, 16), data_chunk(b"")))
    listing = b"LIST" + struct.pack("<I", 4) + b"abcd"
    assert "no sound" in failure(tmp_path, riff(fmt_chunk(1, 1, 16000, 16), data_chunk(b""), listing))


@pytest.mark.parametrize(
    ("fmt", "words"),
    [
        (fmt_chunk(0x11, 1, 16000, 4), "IMA ADPCM"),
        (fmt_chunk(0x55, 1, 16000, 16), "MP3"),
        (fmt_chunk(0x1234, 1, 16000, 16), "0x1234"),
        (fmt_chunk(1, 0, 16000, 16), "damaged"),
        (fmt_chunk(1, 1, 0, 16), "damaged"),
        (fmt_chunk(1, 1, 16000, 64), "64 bits"),
        (b"fmt " + struct.pack("<I", 4) + b"\1\0\1\0", "too short"),
        (b"", "no format header"),
    ],
)
def test_formats_that_cannot_be_read(tmp_path: Path, fmt: bytes, words: str) -> None:
    assert words in failure(tmp_path, riff(fmt, data_chunk(b"\0" * 64)))


def test_unwritable_targets(tmp_path: Path) -> None:
    for target, words in ((tmp_path / "no" / "a.wav", "folder does not exist"), (tmp_path, "is a folder")):
        with pytest.raises(AudioFileError, match=words):
            write_wav(target, RAMP, 24000)
        with pytest.raises(AudioFileError, match=words):
            check_writable(target)
    check_writable(tmp_path / "a.wav")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_wav(tmp_path / "a.wav", RAMP, 16000)
    before = (tmp_path / "a.wav").read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(AudioFileError, match="No space left"):
        write_wav(tmp_path / "a.wav", RAMP[:3], 16000)
    assert (tmp_path / "a.wav").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_a_pipe_is_written_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard: list[bytes] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_bytes()))
    reader.start()
    write_wav(pipe, RAMP, 24000)
    reader.join()
    assert pipe.is_fifo()
    assert heard[0].endswith(RAMP.tobytes())


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link.wav").symlink_to(tmp_path / "real.wav")
    write_wav(tmp_path / "link.wav", RAMP, 24000)
    assert (tmp_path / "link.wav").is_symlink()
    assert (tmp_path / "real.wav").is_file()
