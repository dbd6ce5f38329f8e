from __future__ import annotations

from pathlib import Path

import pytest

from voice.errors import ModelError
from voice.weights.catalog import Catalog
from voice.weights.references import LocalModel, check_layout, folder_name, parse_reference


def test_a_catalog_name_of_another_kind(catalog: Catalog) -> None:
    with pytest.raises(ModelError) as caught:
        parse_reference("joe", "asr", catalog)
    assert str(caught.value) == (
        "joe is a voice (tts) model, but a speech recognition (asr) model is needed here: whisper"
    )


@pytest.mark.parametrize(
    ("ref", "kind", "message"),
    [
        ("nothing", "asr", "neither a model of the catalog (whisper), nor a path that exists, nor a hub name"),
        ("org/voices", "tts", "write org/repo:path/in/the/repository.onnx"),
        ("org/llm:file.onnx", "llm", "write org/repo or org/repo@revision"),
        ("org/voices:../../etc/x.onnx", "tts", "is not a path inside the repository"),
        ("org/voices:a/voice.pt", "tts", "is an .onnx file"),
        ("a/b/c", "llm", "nor a hub name"),
    ],
)
def test_what_is_no_reference(ref: str, kind: str, message: str, catalog: Catalog) -> None:
    with pytest.raises(ModelError) as caught:
        parse_reference(ref, kind, catalog)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("ref", "kind", "folder"),
    [
        ("org/repo", "llm", "org--repo"),
        ("org/repo@v1", "asr", "org--repo+v1"),
        ("org/repo@refs/pr/1", "llm", "org--repo+refs--pr--1"),
        ("org/repo:en/x.onnx", "tts", "org--repo++en--x.onnx"),
    ],
)
def test_hub_names_have_folders_of_their_own(ref: str, kind: str, folder: str, catalog: Catalog) -> None:
    model = parse_reference(ref, kind, catalog)
    assert not isinstance(model, LocalModel)
    assert folder_name(model) == folder


def test_paths(catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_reference("/some/where", "llm", catalog) == LocalModel(Path("/some/where"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org" / "repo").mkdir(parents=True)
    assert parse_reference("org/repo", "llm", catalog) == LocalModel(tmp_path / "org" / "repo")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert parse_reference("~/x", "llm", catalog) == LocalModel(tmp_path / "x")


def problem(path: Path, kind: str) -> str:
    with pytest.raises(ModelError) as caught:
        check_layout(path, kind)
    return str(caught.value)


def test_layouts_name_what_is_missing(tmp_path: Path) -> None:
    assert problem(tmp_path / "none", "asr").endswith(
        "none does not exist; give the folder of a speech recognition (asr) model"
    )
    assert problem(tmp_path, "asr").endswith(
        "in CTranslate2 layout: it lacks model.bin, config.json, tokenizer.json, vocabulary.json or vocabulary.txt"
    )
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "tokenizer.json").write_text("{}")
    assert problem(tmp_path, "llm").endswith("in Hugging Face layout: it lacks weights (*.safetensors)")
    (tmp_path / "model.safetensors").write_text("w")
    check_layout(tmp_path, "llm")
    assert problem(tmp_path / "config.json", "llm").endswith("give the folder, not a file in it")
    for name in ("model.bin", "vocabulary.json"):
        (tmp_path / name).write_text("x")
    check_layout(tmp_path, "asr")


def test_single_files(tmp_path: Path) -> None:
    voice = tmp_path / "v.onnx"
    assert "give the .onnx file" in problem(voice, "tts")
    assert "give the .onnx file itself" in problem(tmp_path, "vad")
    voice.write_bytes(b"")
    assert "v.onnx is empty" in problem(voice, "vad")
    voice.write_bytes(b"x")
    check_layout(voice, "vad")
    assert problem(voice, "tts").endswith("v.onnx.json must lie beside it")
    voice.with_name("v.onnx.json").write_text("{}")
    check_layout(voice, "tts")
