from __future__ import annotations

import io

from voice.weights.progress import TerminalProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_plain_line_now_and_then() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = TerminalProgress(stream, clock)
    progress.start("model.bin", 100_000_000, 20_000_000)
    for _ in range(8):
        clock.now += 1
        progress.advance(10_000_000)
    progress.finish()
    progress.note("done")
    assert stream.getvalue().splitlines() == [
        "model.bin: going on at 20.0 MB",
        "model.bin  70%    70.0/100.0 MB   10.0 MB/s",
        "model.bin 100%   100.0/100.0 MB   10.0 MB/s",
        "done",
    ]


def test_a_terminal_gets_one_line_that_is_redrawn() -> None:
    stream, clock = Terminal(), Clock()
    progress = TerminalProgress(stream, clock)
    progress.start("f", 2_000_000)
    clock.now += 1
    progress.advance(1_000_000)
    progress.finish()
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert [part.strip() for part in text.split("\r")[1:]] == [
        "f   0%     0.0/2.0 MB    0.0 MB/s",
        "f  50%     1.0/2.0 MB    1.0 MB/s",
        "f  50%     1.0/2.0 MB    1.0 MB/s",
    ]


def test_a_length_that_nobody_knows() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = TerminalProgress(stream, clock)
    progress.start("f", None)
    clock.now += 2
    progress.advance(3_000_000)
    progress.finish(ok=False)
    assert stream.getvalue() == ""
    assert progress.describe() == "f     3.0 MB    1.5 MB/s"
