"""One downloader for everything: HTTPS, resumed where it stopped, checked by sha256, put in place atomically."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import http.client
import json
import os
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from voice import __version__
from voice.weights.progress import Progress

CHUNK_BYTES = 1 << 20


class FetchError(Exception):
    """A source did not give the file. The message says why, in a few words."""


class UnreachableError(FetchError):
    """The host cannot be reached at all: asking it again in this pull is pointless."""


class NoSpaceError(FetchError):
    """The disk is full: no other source will do better."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How patient a download is."""

    connect_s: float = 5.0
    """For a connection to come about. A host that is blocked should cost seconds, not minutes."""

    read_s: float = 30.0
    """For the next bytes to arrive on an open connection."""

    attempts: int = 4
    """In a row without a single new byte; an attempt that brought some starts the count again."""

    pause_s: float = 1.0
    """Before the second attempt; twice as long before each further one."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to fetch, and what it must be."""

    url: str
    label: str
    """How progress lines call it."""

    sha256: str | None = None
    size: int | None = None
    """Bytes."""

    headers: Mapping[str, str] = field(default_factory=dict)
    """For the first host only: a redirect to another host (a CDN) does not see them."""


class Downloader:
    """Fetches URLs into files. Holds no connection between calls; safe to use from several threads at once."""

    def __init__(
        self,
        progress: Progress,
        limits: Limits | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._progress = progress
        self._limits = limits or Limits()
        self._sleep = sleep
        self._opener: urllib.request.OpenerDirector | None = None

    def fetch(self, request: Request, target: Path) -> str:
        """Brings the file to ``target`` and returns its sha256 as hex digits.

        The bytes gather in ``target`` + ``.part``, which stays for the next try when this one fails half-way.

        Raises UnreachableError, NoSpaceError, or FetchError for everything else (refused, broken off again and again,
        wrong sha256 or size: then the bytes are thrown away).
        """
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(target.name + ".part")
        try:
            return self._fetch(request, part, target)
        except OSError as error:
            if is_no_space(error):
                raise NoSpaceError(f"no space left while writing {part}") from error
            raise FetchError(f"cannot write {part}: {error.strerror or error}") from error

    def read(self, url: str, headers: Mapping[str, str] | None = None, limit: int = 64 * CHUNK_BYTES) -> bytes:
        """A small document, at most ``limit`` bytes. Raises UnreachableError or FetchError."""
        response = self._open(url, headers or {}, {})
        with response:
            try:
                data: bytes = response.read(limit + 1)
            except (OSError, http.client.HTTPException) as error:
                raise FetchError(f"the connection broke off ({_reason(error)})") from error
        if len(data) > limit:
            raise FetchError(f"the answer is longer than {limit} bytes")
        return data

    def _fetch(self, request: Request, part: Path, target: Path) -> str:
        resumed = part.exists()
        failures = 0
        while True:
            before = _size(part)
            try:
                self._attempt(request, part)
            except UnreachableError:
                # Only a host that never answered is down; one that broke off half-way is worth another try.
                if before == 0 and failures == 0:
                    raise
                failures = self._wait_or_raise(failures + 1)
                continue
            except _BrokenOffError as error:
                failures = 1 if _size(part) > before else failures + 1
                self._wait_or_raise(failures, error)
                continue
            digest = file_sha256(part)
            size = _size(part)
            if (request.sha256 in (None, digest)) and (request.size in (None, size)):
                _sync(part)
                part.replace(target)
                _validator_path(part).unlink(missing_ok=True)
                sync_folder(target.parent)
                return digest
            discard(part)
            if not resumed:
                wrong = f"sha256 {digest[:12]}..." if request.sha256 not in (None, digest) else f"{size} bytes"
                expected = f"{(request.sha256 or '')[:12]}..." if "sha256" in wrong else f"{request.size}"
                raise FetchError(f"wrong file: {wrong} in place of {expected}")
            # What lay there from an earlier try may have been another file's bytes. Once more, from the start.
            resumed = False

    def _wait_or_raise(self, failures: int, error: Exception | None = None) -> int:
        if failures >= self._limits.attempts:
            raise FetchError(str(error) if error else "the host cannot be reached any more") from error
        self._sleep(self._limits.pause_s * 2 ** (failures - 1))
        return failures

    def _attempt(self, request: Request, part: Path) -> None:
        """One connection. Returns when the file is whole; raises _BrokenOffError when it is worth another try."""
        offset = _size(part)
        if request.size is not None and offset == request.size:
            return
        if request.size is not None and offset > request.size:
            discard(part)
            offset = 0
        validator = _read_validator(part) if offset else None
        extra = {}
        if offset and (validator or request.sha256):
            extra["Range"] = f"bytes={offset}-"
            if validator:
                extra["If-Range"] = validator
        try:
            response = self._open(request.url, request.headers, extra)
        except _RangeRefusedError:
            discard(part)
            response = self._open(request.url, request.headers, {})
        with response:
            offset, total = _place(response, offset)
            if total is not None and request.size is not None and total != request.size:
                discard(part)
                raise FetchError(f"wrong file: {total} bytes in place of {request.size}")
            etag = response.headers.get("ETag", "")
            _write_validator(part, etag if etag and not etag.startswith("W/") else None)
            self._receive(response, part, offset, total or request.size, request.label)

    def _receive(self, response: Any, part: Path, offset: int, total: int | None, label: str) -> None:
        done = offset
        self._progress.start(label, total, offset)
        try:
            with part.open("r+b" if offset else "wb") as file:
                file.seek(offset)
                file.truncate()
                while True:
                    try:
                        chunk = response.read1(CHUNK_BYTES)
                    except (OSError, http.client.HTTPException) as error:
                        raise _BrokenOffError(f"the connection broke off ({_reason(error)})") from error
                    if not chunk:
                        break
                    file.write(chunk)
                    done += len(chunk)
                    self._progress.advance(len(chunk))
            if total is not None and done < total:
                raise _BrokenOffError(f"the connection broke off at {done} of {total} bytes")
        except BaseException:
            self._progress.finish(ok=False)
            raise
        self._progress.finish()

    def _open(self, url: str, headers: Mapping[str, str], extra: Mapping[str, str]) -> Any:
        request = urllib.request.Request(url, method="GET")
        request.add_header("User-Agent", f"voice/{__version__}")
        request.add_header("Accept-Encoding", "identity")
        for name, value in extra.items():
            request.add_header(name, value)
        for name, value in headers.items():
            request.add_unredirected_header(name, value)
        try:
            return self._urllib().open(request, timeout=self._limits.connect_s)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                raise _RangeRefusedError from error
            if error.code >= 500 or error.code in (408, 429):
                raise _BrokenOffError(f"HTTP {error.code} {error.reason}") from error
            raise FetchError(_refusal(error.code, str(error.reason))) from error
        except urllib.error.URLError as error:
            host = urlsplit(url).hostname
            cause = error.reason if isinstance(error.reason, Exception) else error
            raise UnreachableError(f"{host} cannot be reached ({_reason(cause)})") from error
        except (OSError, http.client.HTTPException) as error:
            raise _BrokenOffError(f"the connection broke off ({_reason(error)})") from error
        except ValueError as error:
            raise FetchError(f"{url!r} is not a URL") from error

    def _urllib(self) -> urllib.request.OpenerDirector:
        if self._opener is None:
            self._opener = build_opener(self._limits)
        return self._opener


class _BrokenOffError(FetchError):
    """This attempt failed, the next may not."""


class _RangeRefusedError(FetchError):
    """The server has no bytes from that offset on."""


def build_opener(limits: Limits) -> urllib.request.OpenerDirector:
    """An opener that keeps to the limits. Proxies come from the environment."""

    class Connection(http.client.HTTPConnection):
        def connect(self) -> None:
            super().connect()
            self.sock.settimeout(limits.read_s)

    class SecureConnection(http.client.HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            self.sock.settimeout(limits.read_s)

    class Handler(urllib.request.HTTPHandler):
        def http_open(self, req: urllib.request.Request) -> Any:
            return self.do_open(Connection, req)

    class SecureHandler(urllib.request.HTTPSHandler):
        def https_open(self, req: urllib.request.Request) -> Any:
            return self.do_open(SecureConnection, req, context=context)

    context = _tls_context()
    return urllib.request.build_opener(Handler, SecureHandler(context=context))


def _tls_context() -> ssl.SSLContext:
    """Trusts the system's authorities, plus those that pip and requests were told to trust (company mirrors)."""
    context = ssl.create_default_context()
    for variable in ("PIP_CERT", "REQUESTS_CA_BUNDLE"):
        if path := os.environ.get(variable):
            with contextlib.suppress(OSError, ssl.SSLError):
                context.load_verify_locations(cafile=path)
    if not context.cert_store_stats()["x509_ca"]:
        # Python from python.org has no authorities of its own on macOS.
        with contextlib.suppress(ImportError, OSError):
            import certifi

            context.load_verify_locations(cafile=certifi.where())
    return context


def _place(response: Any, offset: int) -> tuple[int, int | None]:
    """From which byte this answer goes on, and how long the whole file is (None: not said)."""
    if response.status == http.HTTPStatus.PARTIAL_CONTENT:
        text = response.headers.get("Content-Range", "")
        try:
            span, total = text.removeprefix("bytes ").split("/")
            start = int(span.split("-")[0])
            if start != offset:
                raise ValueError
            return start, None if total == "*" else int(total)
        except ValueError:
            raise FetchError(f"the server answered with other bytes than asked for ({text!r})") from None
    length = response.headers.get("Content-Length")
    return 0, int(length) if length and length.isdigit() else None


def _refusal(code: int, reason: str) -> str:
    if code in (401, 403):
        return f"HTTP {code} {reason}: not public, or it needs a token (HF_TOKEN)"
    return f"HTTP {code} {reason}"


def _reason(error: BaseException) -> str:
    if isinstance(error, socket.gaierror):
        return "name not resolved"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate not trusted: {error.verify_message}"
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def is_no_space(error: OSError) -> bool:
    """Whether this is the disk (or the user's quota) being full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def file_sha256(path: Path) -> str:
    """Hex digest of a file. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def discard(part: Path) -> None:
    """Removes a partial file and what was noted about it."""
    part.unlink(missing_ok=True)
    _validator_path(part).unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Makes renames in a folder durable, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _validator_path(part: Path) -> Path:
    return part.with_name(part.name + ".json")


def _read_validator(part: Path) -> str | None:
    try:
        value = json.loads(_validator_path(part).read_text("utf-8"))["etag"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return value if isinstance(value, str) else None


def _write_validator(part: Path, etag: str | None) -> None:
    if etag is None:
        _validator_path(part).unlink(missing_ok=True)
    else:
        _validator_path(part).write_text(json.dumps({"etag": etag}), "utf-8")
