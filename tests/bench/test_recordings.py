from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from voice.audio.wav import write_wav
from voice.bench.recordings import Entry, find, load
from voice.errors import AudioFileError

SAMPLES = np.array([0, 16384, -32768, 32767], dtype=np.int16)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three recordings, in a folder of their own."""
    made = tmp_path / "speech"
    made.mkdir()
    for name in ("b.wav", "a.wav", "c.WAV"):
        write_wav(made / name, SAMPLES, 16000)
    (made / "notes.txt").write_text("no sound")
    (made / "d.wav").mkdir()
    return made


def manifest(folder: Path, *entries: dict[str, Any]) -> Path:
    path = folder / "manifest.jsonl"
    path.write_text("\n\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def listed(folder: Path) -> Path:
    return manifest(
        folder,
        {"path": "b.wav", "transcript": "one\u2028two", "language": "en", "speaker": "s1", "kind": "speech"},
        {"path": "hum.wav", "kind": "noise"},
        {"path": str(folder / "a.wav"), "language": "fr", "transcript": None, "speaker": 3},
        {"path": "x.raw", "sample_rate": 8000, "language": "EN"},
    )


def names(entries: list[Entry]) -> list[str]:
    return [entry.name for entry in entries]


def test_folder(folder: Path) -> None:
    assert find(str(folder)) == [Entry(name, folder / name) for name in ("a.wav", "b.wav", "c.WAV")]
    assert names(find(str(folder), limit=2)) == ["a.wav", "b.wav"]


def test_manifest_of_a_folder(folder: Path, listed: Path) -> None:
    absolute = str(folder / "a.wav")
    expected = [
        Entry("b.wav", folder / "b.wav", transcript="one\u2028two", language="en", speaker="s1"),
        Entry(absolute, folder / "a.wav", language="fr"),
        Entry("x.raw", folder / "x.raw", language="EN", rate=8000),
    ]
    assert find(str(folder)) == find(str(listed)) == expected
    assert names(find(str(folder), language="en")) == ["b.wav", "x.raw"]
    assert names(find(str(folder), language="en", limit=1)) == ["b.wav"]


def test_manifest_of_a_subfolder_with_paths_from_the_folder_above(folder: Path) -> None:
    inner = folder / "demo"
    inner.mkdir()
    write_wav(inner / "q.wav", SAMPLES, 16000)
    (entry,) = find(str(manifest(inner, {"path": "demo/q.wav"})))
    assert entry.name == "demo/q.wav" and load(entry).samples.size == 4


def test_only(folder: Path, listed: Path, tmp_path: Path) -> None:
    only = tmp_path / "list.txt"
    only.write_text("# the fixed list\n\nx.raw\n  b.wav \n")
    assert names(find(str(listed), only=str(only))) == ["x.raw", "b.wav"]
    assert names(find(str(listed), only=str(only), limit=1)) == ["x.raw"]
    listed.unlink()
    only.write_text("c.WAV\na.wav\n")
    assert names(find(str(folder), only=str(only))) == ["c.WAV", "a.wav"]


@pytest.mark.parametrize(
    ("listing", "message"),
    [
        ("b.wav\n# more\ngone.wav\n", "list.txt, line 3: .*manifest.jsonl has no speech named gone.wav; correct"),
        ("hum.wav\n", "has no speech named hum.wav"),
        ("# nothing\n\n", "list.txt lists nothing: write one manifest path a line"),
        (None, "list.txt does not exist: check the path"),
    ],
)
def test_bad_list(listed: Path, tmp_path: Path, listing: str | None, message: str) -> None:
    only = tmp_path / "list.txt"
    if listing is not None:
        only.write_text(listing)
    with pytest.raises(AudioFileError, match=message):
        find(str(listed), only=str(only))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "line 1: expected an object such as"),
        ('\n["q1.wav"]', "line 2: expected an object such as"),
        ('{"path": 1}', "line 1: expected an object such as"),
        ('{"path": "a.raw", "sample_rate": 0}', "line 1: sample_rate must be a whole number of Hz, not 0"),
        ('{"path": "a.raw", "sample_rate": true}', "line 1: sample_rate must be a whole number of Hz, not True"),
        ("", "holds no speech: name a folder with .wav"),
        (b"RIFF\xff\xff", "is not text; name a folder of recordings or a manifest"),
    ],
)
def test_bad_manifest(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = tmp_path / "manifest.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(AudioFileError, match=message) as caught:
        find(str(path))
    assert "\n" not in str(caught.value)


def test_nothing_to_use(folder: Path, listed: Path, tmp_path: Path) -> None:
    with pytest.raises(AudioFileError, match='holds no speech with the language "tr"'):
        find(str(folder), language="tr")
    with pytest.raises(AudioFileError, match="a limit of 0 leaves no recordings: give 1 or more"):
        find(str(folder), limit=0)
    with pytest.raises(AudioFileError, match="nowhere does not exist: check the path"):
        find(str(tmp_path / "nowhere"))
    with pytest.raises(AudioFileError, match="is not a file name"):
        find("a\0b")


def test_load_wav(folder: Path) -> None:
    entry = Entry("shown", folder / "a.wav", transcript="hello", language="en", speaker="s1")
    recording = load(entry)
    assert (recording.name, recording.transcript, recording.language, recording.speaker) == (
        "shown", "hello", "en", "s1",
    )  # fmt: skip
    assert recording.samples.dtype == np.float32
    assert recording.samples.tolist() == [0.0, 0.5, -1.0, 32767 / 32768]


def test_load_resamples_and_stays_in_range(tmp_path: Path) -> None:
    square = np.tile(np.repeat(np.array([32767, -32768], dtype=np.int16), 40), 100)
    write_wav(tmp_path / "a.wav", square, 48000)
    samples = load(Entry("a", tmp_path / "a.wav")).samples
    assert len(samples) == 8000 // 3 + 1
    assert samples.max() == np.float32(32767 / 32768) and samples.min() == -1.0


def test_load_raw(tmp_path: Path) -> None:
    path = tmp_path / "a.raw"
    path.write_bytes(SAMPLES.astype("<i2").tobytes())
    assert load(Entry("a", path)).samples.tolist() == [0.0, 0.5, -1.0, 32767 / 32768]
    assert load(Entry("a", path, rate=8000)).samples.size == 8
    path.write_bytes(b"abc")
    with pytest.raises(AudioFileError, match=r"a.raw ends inside a sample"):
        load(Entry("a", path))
    path.write_bytes(b"")
    with pytest.raises(AudioFileError, match=r"a.raw holds no sound that can be read: record it again or leave it out"):
        load(Entry("a", path))


def encode(path: Path, samples: np.ndarray, layout: str) -> None:
    """Writes a FLAC file. ``samples`` [channels, frames] at 32 kHz."""
    av = pytest.importorskip("av")
    with av.open(str(path), "w", format="flac") as container:
        stream = container.add_stream("flac", rate=32000, layout=layout)
        stream.format = "s16"
        frame = av.AudioFrame.from_ndarray(samples.T.reshape(1, -1).copy(), format="s16", layout=layout)
        frame.sample_rate = 32000
        container.mux([*stream.encode(frame), *stream.encode(None)])


def test_load_compressed(tmp_path: Path) -> None:
    pytest.importorskip("faster_whisper.audio")
    left = np.full(32000, 16384, dtype=np.int16)
    encode(tmp_path / "a.flac", np.stack([left, left // 2]), "stereo")
    samples = load(Entry("a", tmp_path / "a.flac")).samples
    assert samples.dtype == np.float32 and abs(samples.size - 16000) <= 32
    assert samples[8000] == pytest.approx(0.375, abs=0.01)  # between the left (0.5) and the right (0.25)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.flac", None, "a.flac does not exist: check the path"),
        ("a.flac", b"", "a.flac is empty: record it again"),
        ("a.flac", b"no sound at all" * 100, "a.flac holds no sound that can be read: record it again"),
        (
            "a.ogg",
            b"no sound at all" * 100,
            "a.ogg cannot be decoded: .*; convert it, for example with `ffmpeg -i a.ogg",
        ),
    ],
)
def test_bad_compressed(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    pytest.importorskip("faster_whisper.audio")
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(AudioFileError, match=message) as caught:
        load(Entry("a", path))
    assert "\n" not in str(caught.value)


def test_compressed_without_faster_whisper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faster_whisper.audio", None)
    (tmp_path / "a.mp3").write_bytes(b"something")
    with pytest.raises(AudioFileError, match=r"needs faster-whisper to be decoded: pip install 'voice\[cpu\]'"):
        load(Entry("a", tmp_path / "a.mp3"))


def test_bad_wav(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"no sound at all")
    with pytest.raises(AudioFileError, match="is not a WAV file"):
        load(Entry("a", tmp_path / "a.wav"))
