from __future__ import annotations

import errno
import socket
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from voice.weights.fetch import Downloader, FetchError, Limits, NoSpaceError, Request, UnreachableError
from voice.weights.progress import SilentProgress

from .conftest import FAST, Notes, WebServer, sha256

DATA = bytes(range(256)) * 2000


def test_a_file_arrives_whole_and_leaves_no_part(web: WebServer, downloader: Downloader, tmp_path: Path) -> None:
    web.put("/f", DATA)
    digest = downloader.fetch(Request(f"{web.url}/f", "f", sha256(DATA), len(DATA)), tmp_path / "sub" / "f")
    assert digest == sha256(DATA)
    assert (tmp_path / "sub" / "f").read_bytes() == DATA
    assert [path.name for path in (tmp_path / "sub").iterdir()] == ["f"]


def test_a_cut_connection_is_resumed_where_it_stopped(
    web: WebServer, downloader: Downloader, notes: Notes, tmp_path: Path
) -> None:
    web.put("/f", DATA, cuts=[100_000, 50_000])
    downloader.fetch(Request(f"{web.url}/f", "f", sha256(DATA), len(DATA)), tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == DATA
    assert [asked.range for asked in web.asked] == [None, "bytes=100000-", "bytes=150000-"]
    assert [asked.if_range for asked in web.asked] == [None, '"one"', '"one"']
    assert notes.started == [("f", len(DATA), 0), ("f", len(DATA), 100_000), ("f", len(DATA), 150_000)]


def test_a_later_call_goes_on_with_the_part_of_an_earlier_one(
    web: WebServer, downloader: Downloader, tmp_path: Path
) -> None:
    served = web.put("/f", DATA, cuts=[200_000, 0, 0])
    request = Request(f"{web.url}/f", "f", sha256(DATA), len(DATA))
    with pytest.raises(FetchError, match="broke off at 200000 of 512000 bytes"):
        downloader.fetch(request, tmp_path / "f")
    assert not (tmp_path / "f").exists()
    assert (tmp_path / "f.part").stat().st_size == 200_000
    served.cuts.clear()
    downloader.fetch(request, tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == DATA
    assert web.asked[-1].range == "bytes=200000-"


def test_a_changed_file_starts_again(web: WebServer, downloader: Downloader, tmp_path: Path) -> None:
    request = Request(f"{web.url}/f", "f")
    web.put("/f", b"old" * 1000, cuts=[900, 0, 0])
    with pytest.raises(FetchError):
        downloader.fetch(request, tmp_path / "f")
    web.put("/f", b"new" * 1000, etag='"two"')
    downloader.fetch(request, tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == b"new" * 1000
    assert web.asked[-1].if_range == '"one"'


def test_a_server_without_ranges_starts_again(web: WebServer, downloader: Downloader, tmp_path: Path) -> None:
    web.put("/f", DATA, cuts=[1000], ranges=False)
    downloader.fetch(Request(f"{web.url}/f", "f", sha256(DATA)), tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == DATA


def test_anothers_bytes_in_the_part_cost_one_restart(web: WebServer, downloader: Downloader, tmp_path: Path) -> None:
    web.put("/f", DATA, etag=None)
    (tmp_path / "f.part").write_bytes(b"x" * 5000)
    downloader.fetch(Request(f"{web.url}/f", "f", sha256(DATA), len(DATA)), tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == DATA
    assert [asked.range for asked in web.asked] == ["bytes=5000-", None]


def test_a_part_that_is_whole_already_needs_no_request(web: WebServer, downloader: Downloader, tmp_path: Path) -> None:
    (tmp_path / "f.part").write_bytes(DATA)
    downloader.fetch(Request(f"{web.url}/f", "f", sha256(DATA), len(DATA)), tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == DATA
    assert web.asked == []


def test_a_part_longer_than_the_file_starts_again(web: WebServer, downloader: Downloader, tmp_path: Path) -> None:
    web.put("/f", DATA)
    (tmp_path / "f.part").write_bytes(DATA + b"more")
    downloader.fetch(Request(f"{web.url}/f", "f", sha256(DATA)), tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == DATA


def test_a_wrong_file_is_thrown_away(web: WebServer, downloader: Downloader, tmp_path: Path) -> None:
    web.put("/f", b"other")
    with pytest.raises(FetchError, match=rf"wrong file: sha256 {sha256(b'other')[:12]}\.\.\. in place of"):
        downloader.fetch(Request(f"{web.url}/f", "f", sha256(DATA)), tmp_path / "f")
    with pytest.raises(FetchError, match="wrong file: 5 bytes in place of 6"):
        downloader.fetch(Request(f"{web.url}/f", "f", None, 6), tmp_path / "f")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("status", "message", "requests"),
    [
        (404, "HTTP 404 Not Found", 1),
        (401, r"HTTP 401 Unauthorized: not public, or it needs a token \(HF_TOKEN\)", 1),
        (503, "HTTP 503 Service Unavailable", 3),
    ],
)
def test_only_passing_trouble_is_tried_again(
    web: WebServer, downloader: Downloader, tmp_path: Path, status: int, message: str, requests: int
) -> None:
    web.put("/f", DATA, status=status)
    with pytest.raises(FetchError, match=f"^{message}$"):
        downloader.fetch(Request(f"{web.url}/f", "f"), tmp_path / "f")
    assert len(web.asked) == requests


def test_a_closed_port_is_unreachable_at_once(downloader: Downloader, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        with pytest.raises(UnreachableError, match=r"127\.0\.0\.1 cannot be reached \(Connection refused\)"):
            downloader.fetch(Request(f"http://127.0.0.1:{port}/f", "f"), tmp_path / "f")


def test_a_silent_server_costs_the_read_limit_not_more(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        downloader = Downloader(SilentProgress(), Limits(connect_s=0.5, read_s=0.1, attempts=2, pause_s=0))
        began = time.monotonic()
        with pytest.raises(FetchError, match="no answer in time"):
            downloader.fetch(Request(f"http://127.0.0.1:{listener.getsockname()[1]}/f", "f"), tmp_path / "f")
        assert time.monotonic() - began < 2


def test_a_full_disk_is_told_apart(
    web: WebServer, downloader: Downloader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.put("/f", DATA)

    def full(self: Path, *args: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(NoSpaceError, match="no space left while writing"):
        downloader.fetch(Request(f"{web.url}/f", "f"), tmp_path / "f")


def test_a_token_goes_to_its_host_alone(web: WebServer, downloader: Downloader, tmp_path: Path) -> None:
    web.put("/f", DATA)
    downloader.fetch(Request(f"{web.url}/f", "f", headers={"Authorization": "Bearer s"}), tmp_path / "f")
    assert web.asked[0].authorization == "Bearer s"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(min_size=1, max_size=400), cuts=st.lists(st.integers(1, 200), max_size=6), start=st.data())
def test_whatever_breaks_off_the_result_is_the_file(
    web: WebServer, data: bytes, cuts: list[int], start: st.DataObject
) -> None:
    """Any earlier part (right or wrong bytes) and any cuts: what arrives is the file."""
    earlier = start.draw(st.binary(max_size=400) | st.integers(0, len(data)).map(lambda n: data[:n]))
    web.put("/f", data, cuts=list(cuts))
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "f"
        target.with_name("f.part").write_bytes(earlier)
        Downloader(SilentProgress(), FAST).fetch(Request(f"{web.url}/f", "f", sha256(data), len(data)), target)
        assert target.read_bytes() == data
