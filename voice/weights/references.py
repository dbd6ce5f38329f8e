"""What a user may write where a model is asked for: a catalog name, a path, or a hub name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from voice.errors import ModelError
from voice.weights.catalog import KIND_NAMES, Catalog, HubSource, Model, ModelFile, relative_path

_HUB = re.compile(r"(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(@(?P<revision>[^:@\s]+))?(:(?P<path>[^\s]+))?")


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model that the user keeps somewhere: used as it is, never written to."""

    path: Path


Reference = Model | LocalModel


def parse_reference(ref: str, kind: str, catalog: Catalog) -> Reference:
    """Finds out what ``ref`` means; a hub name becomes a Model that is in no catalog.

    A catalog name wins, then anything that exists or looks like a path, then ``org/repo[@revision][:path]``.
    Raises ModelError when it is none of these or another kind of model.
    """
    if ref in catalog.models:
        model = catalog.models[ref]
        if model.kind != kind:
            raise ModelError(
                f"{ref} is a {KIND_NAMES[model.kind]} model, but a {KIND_NAMES[kind]} model is needed here: "
                f"{', '.join(catalog.of_kind(kind))}"
            )
        return model
    if ref.startswith(("/", "./", "../", "~")) or Path(ref).exists():
        return LocalModel(Path(ref).expanduser().absolute())
    match = _HUB.fullmatch(ref)
    if not match:
        raise ModelError(
            f"{ref!r} is neither a model of the catalog ({', '.join(catalog.of_kind(kind))}), nor a path that exists, "
            "nor a hub name such as org/repo"
        )
    return _hub_model(ref, kind, match["repo"], match["revision"] or "main", match["path"])


def _hub_model(ref: str, kind: str, repo: str, revision: str, path: str | None) -> Model:
    needs_path = kind in ("tts", "vad", "endpoint")
    if needs_path != bool(path):
        form = "org/repo:path/in/the/repository.onnx" if needs_path else "org/repo or org/repo@revision"
        raise ModelError(f"{ref!r} does not name a {KIND_NAMES[kind]} model: write {form}")
    files: tuple[ModelFile, ...] = ()
    paths: dict[str, str] = {}
    if path:
        try:
            relative_path(path)
        except ValueError:
            raise ModelError(f"{ref!r}: {path!r} is not a path inside the repository") from None
        if not path.endswith(".onnx"):
            raise ModelError(f"{ref!r}: a {KIND_NAMES[kind]} model is an .onnx file")
        names = [path, path + ".json"] if kind == "tts" else [path]
        paths = {Path(name).name: name for name in names}
        files = tuple(ModelFile(name) for name in paths)
    return Model(
        name=ref,
        kind=kind,
        licence="see its model card",
        description=f"from the hub: {ref}",
        files=files,
        sources=(HubSource(repo, revision, paths),),
    )


def folder_name(model: Model) -> str:
    """The model's folder in the store: its name, or for a hub name something a file system likes."""
    return re.sub(r"[^A-Za-z0-9._-]", lambda match: {"/": "--", "@": "+", ":": "++"}.get(match[0], "_"), model.name)


def result_path(model: Model, folder: Path) -> Path:
    """What an engine loads: the folder for asr and llm, else the one .onnx (or .gguf) file in it."""
    if model.kind in ("asr", "llm"):
        return folder
    suffix = ".gguf" if model.kind == "gguf" else ".onnx"
    return folder / next(file.name for file in model.files if file.name.endswith(suffix))


def check_layout(path: Path, kind: str) -> None:
    """Checks that ``path`` is laid out as a model of this kind. Raises ModelError naming what is missing."""
    what = f"{path} is not a {KIND_NAMES[kind]} model"
    if kind in ("asr", "llm"):
        if not path.exists():
            raise ModelError(f"{path} does not exist; give the folder of a {KIND_NAMES[kind]} model")
        if not path.is_dir():
            raise ModelError(f"{what}: give the folder, not a file in it")
        if missing := _missing_files(path, kind):
            layout = "CTranslate2" if kind == "asr" else "Hugging Face"
            raise ModelError(f"{what} in {layout} layout: it lacks {', '.join(missing)}")
        return
    if not path.exists():
        raise ModelError(f"{path} does not exist; give the .onnx file of a {KIND_NAMES[kind]} model")
    suffix = ".gguf" if kind == "gguf" else ".onnx"
    if not path.is_file() or path.suffix != suffix:
        raise ModelError(f"{what}: give the {suffix} file itself")
    if path.stat().st_size == 0:
        raise ModelError(f"{path} is empty; fetch it again")
    if kind == "tts" and not path.with_name(path.name + ".json").is_file():
        raise ModelError(f"{what}: {path.name}.json must lie beside it")


def _missing_files(folder: Path, kind: str) -> list[str]:
    if kind == "asr":
        missing = [name for name in ("model.bin", "config.json", "tokenizer.json") if not (folder / name).is_file()]
        if not any(folder.glob("vocabulary.*")):
            missing.append("vocabulary.json or vocabulary.txt")
        return missing
    missing = [] if (folder / "config.json").is_file() else ["config.json"]
    if not any(folder.glob("*.safetensors")) and not any(folder.glob("*.bin")):
        missing.append("weights (*.safetensors)")
    if not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer.model", "vocab.json")):
        missing.append("tokenizer.json")
    return missing
