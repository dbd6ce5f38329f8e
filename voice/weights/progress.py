"""Progress of long steps, for people: one line a file on stderr."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import Protocol, TextIO

MB = 1_000_000


class Progress(Protocol):
    """What a download reports to. Files come one after another."""

    def start(self, name: str, total: int | None, done: int = 0) -> None:
        """A file of ``total`` bytes begins (None: unknown); ``done`` bytes of it were already there."""

    def advance(self, count: int) -> None:
        """``count`` more bytes have arrived."""

    def finish(self, *, ok: bool = True) -> None:
        """The file has ended, whole (``ok``) or not."""

    def note(self, message: str) -> None:
        """Something worth a line of its own."""


class SilentProgress:
    """Says nothing."""

    def start(self, name: str, total: int | None, done: int = 0) -> None: ...

    def advance(self, count: int) -> None: ...

    def finish(self, *, ok: bool = True) -> None: ...

    def note(self, message: str) -> None: ...


class TerminalProgress:
    """A bar that redraws itself on a terminal; elsewhere a plain line now and then.

    ``stream`` None means the stderr of the moment. ``clock`` gives seconds.
    """

    REDRAW_S = 0.1
    PLAIN_S = 5.0
    """Between two lines about one file when the output is not a terminal."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._name = ""
        self._total: int | None = None
        self._done = 0
        self._resumed = 0
        self._started = 0.0
        self._drawn = 0.0
        self._open = False

    def start(self, name: str, total: int | None, done: int = 0) -> None:
        """Begins a file's line."""
        self._name, self._total, self._done, self._resumed = name, total, done, done
        self._started = self._drawn = self._clock()
        self._open = True
        if self._is_terminal():
            self._draw()
        elif done:
            self._line(f"{name}: going on at {done / MB:.1f} MB")

    def advance(self, count: int) -> None:
        """Adds to the file's line, and redraws it when it is time."""
        self._done += count
        now = self._clock()
        if now - self._drawn >= (self.REDRAW_S if self._is_terminal() else self.PLAIN_S):
            self._drawn = now
            self._draw()

    def finish(self, *, ok: bool = True) -> None:
        """Ends the file's line."""
        if not self._open:
            return
        if ok or self._is_terminal():
            self._draw()
        if self._is_terminal():
            self._write("\n")
        self._open = False

    def note(self, message: str) -> None:
        """Writes a line of its own, below an unfinished bar if there is one."""
        if self._open and self._is_terminal():
            self._write("\n")
        self._line(message)

    def describe(self) -> str:
        """The line as it stands: name, percent, MB, MB/s."""
        elapsed = self._clock() - self._started
        speed = (self._done - self._resumed) / elapsed / MB if elapsed > 0 else 0.0
        if self._total:
            share = min(self._done / self._total, 1.0)
            amount = f"{share:4.0%} {self._done / MB:7.1f}/{self._total / MB:.1f} MB"
        else:
            amount = f"{self._done / MB:7.1f} MB"
        return f"{self._name} {amount} {speed:6.1f} MB/s"

    def _draw(self) -> None:
        text = self.describe()
        if not self._is_terminal():
            self._line(text)
            return
        width = max(shutil.get_terminal_size().columns - 1, 20)
        self._write("\r" + text[:width].ljust(width))

    def _line(self, text: str) -> None:
        self._write(text + "\n")

    def _is_terminal(self) -> bool:
        return (self._stream or sys.stderr).isatty()

    def _write(self, text: str) -> None:
        stream = self._stream or sys.stderr
        stream.write(text)
        stream.flush()
