"""A server of one's own: started for one command, told apart by its port, gone when the command ends."""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import IO, Self

from voice.client.realtime import one_line
from voice.errors import ServiceError

READY_PREFIX = "ready "
"""The server's line on stdout once every engine has run once: ``ready http://127.0.0.1:PORT``."""

ERROR_PREFIX = "voice: "
"""How the command line begins what it says to people: progress, and at the end the one line about a failure."""

HOLD_S = 1.0
"""Such a line waits this long before it is passed on: when it turns out to be the last, our own message carries it."""

_EXIT_FAILED = 2

START_TIMEOUT_S = 1800.0
"""The first start may fetch models and build the quantized LLM; after that it takes seconds."""

STOP_TIMEOUT_S = 10.0

_PR_SET_PDEATHSIG = 1


class ServerProcess:
    """``voice serve`` on a free loopback port, as a child process. A context manager: ``with`` starts and stops it.

    The child's stderr is passed on to ours line by line, so its progress is seen. It runs in a process group of its
    own (Ctrl-C reaches only us, and we stop it in order) and on Linux it dies when we do, whatever kills us.
    """

    def __init__(
        self,
        options: Sequence[str] = (),
        *,
        command: Sequence[str] | None = None,
        forward: IO[str] | None = None,
        timeout_s: float = START_TIMEOUT_S,
        stop_timeout_s: float = STOP_TIMEOUT_S,
    ) -> None:
        """``options`` are passed on to ``voice serve``; ``command`` replaces the whole command line (for tests)."""
        default = [sys.executable, "-m", "voice", "serve", "--host", "127.0.0.1", "--port", "0"]
        self._command = [*(command if command is not None else default), *options]
        self._forward = forward if forward is not None else sys.stderr
        self._timeout_s = timeout_s
        self._stop_timeout_s = stop_timeout_s
        self._process: subprocess.Popen[str] | None = None
        self._readers: list[threading.Thread] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._last_error_line = ""
        self._hold = threading.Lock()
        self._held = ""
        self._held_since_s = 0.0
        self.url = ""
        """The address of the running server."""

    @property
    def pid(self) -> int | None:
        """The child's process id, while it exists."""
        return self._process.pid if self._process else None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Starts the server and waits until it is ready. Raises ServiceError with its last words when it fails."""
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
                preexec_fn=_die_with_parent(),
            )
        except OSError as error:
            raise ServiceError(f"the server could not be started: {error.strerror or error}") from None
        self._readers = [
            threading.Thread(target=self._read_stdout, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_stderr, args=(self._process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        try:
            self._wait_ready()
        except BaseException:
            self.stop()
            raise

    def _wait_ready(self) -> None:
        assert self._process is not None
        deadline_s = time.monotonic() + self._timeout_s
        while True:
            try:
                line = self._lines.get(timeout=0.1)
            except queue.Empty:
                self._let_go(older_than_s=HOLD_S)
                if time.monotonic() < deadline_s:
                    continue
                raise ServiceError(f"the server was not ready after {self._timeout_s:g} s: see its output") from None
            if line is None:
                break
            if line.startswith(READY_PREFIX):
                self.url = line.removeprefix(READY_PREFIX).split()[0]
                self._let_go()
                return
        code = self._wait_for_exit(self._stop_timeout_s)
        self._readers[1].join(timeout=1.0)  # its last words may still be in the pipe
        if code == _EXIT_FAILED and self._last_error_line.startswith(ERROR_PREFIX):
            self._held = ""
            raise ServiceError(f"the server did not start: {self._last_error_line.removeprefix(ERROR_PREFIX)}")
        self._let_go()
        how = "closed its output" if code is None else _exit_words(code)
        why = f": {self._last_error_line}" if self._last_error_line else ""
        raise ServiceError(f"the server {how} before it was ready{why}")

    def _read_stdout(self, stream: IO[str]) -> None:
        with contextlib.suppress(ValueError, OSError):
            for line in stream:
                self._lines.put(line.strip())
        self._lines.put(None)

    def _read_stderr(self, stream: IO[str]) -> None:
        with contextlib.suppress(ValueError, OSError):
            for line in stream:
                self._let_go()
                if line.strip():
                    self._last_error_line = one_line(line)
                if line.startswith(ERROR_PREFIX) and not self.url:
                    with self._hold:
                        self._held, self._held_since_s = line, time.monotonic()
                else:
                    self._pass_on(line)

    def _let_go(self, older_than_s: float = 0.0) -> None:
        """Passes on a line that was held back."""
        with self._hold:
            if self._held and time.monotonic() - self._held_since_s >= older_than_s:
                self._pass_on(self._held)
                self._held = ""

    def _pass_on(self, text: str) -> None:
        with contextlib.suppress(ValueError, OSError):
            self._forward.write(text)
            self._forward.flush()

    def _wait_for_exit(self, seconds: float) -> int | None:
        """The exit code (negative: the signal), or None. Leaves the dead child unreaped where the system can: until
        then no other process or group can have its id."""
        assert self._process is not None
        deadline_s = time.monotonic() + seconds
        while True:
            if hasattr(os, "waitid"):
                ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if ended is not None:
                    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
            elif (code := self._process.poll()) is not None:
                return code
            if time.monotonic() >= deadline_s:
                return None
            time.sleep(0.02)

    def stop(self) -> None:
        """SIGTERM, a wait, then SIGKILL to what is left of the group. May be called twice."""
        process = self._process
        if process is None:
            return
        try:
            if process.returncode is None and self._wait_for_exit(0.0) is None:
                os.kill(process.pid, signal.SIGTERM)  # not Popen.terminate, which would reap a dead child first
                self._wait_for_exit(self._stop_timeout_s)
        finally:
            # The group has only our child and its children; an engine process that outlived its parent goes with it.
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self._process = None
        for reader, stream in zip(self._readers, (process.stdout, process.stderr), strict=False):
            reader.join(timeout=1.0)
            if stream is not None and not reader.is_alive():
                stream.close()


def _exit_words(code: int) -> str:
    if code < 0:
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
    return f"ended with exit code {code}"


def _die_with_parent() -> Callable[[], object] | None:
    """On Linux, a function for the child to run before exec that ties its life to ours; None elsewhere."""
    if not sys.platform.startswith("linux") or threading.current_thread() is not threading.main_thread():
        return None  # the kernel means the parent *thread*: only the main one lives as long as we do
    try:
        libc = ctypes.CDLL(None)
    except OSError:
        return None

    def tie() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

    return tie
