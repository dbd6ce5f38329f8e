"""An event loop whose time jumps to the next timer instead of waiting for it."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _JumpingSelector(selectors.DefaultSelector):
    """Polls real file descriptors without waiting, and moves the loop's clock by what it would have waited."""

    loop: VirtualClockLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise RuntimeError("every task waits for something that no timer will bring")
        self.loop.now += max(0.0, timeout)
        return ready


class VirtualClockLoop(asyncio.SelectorEventLoop):
    """Runs coroutines on virtual time, deterministically. Threads have no place in it: executors are refused."""

    def __init__(self) -> None:
        self.now = 0.0
        selector = _JumpingSelector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        """Virtual seconds."""
        return self.now

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """Refused: a thread takes real time."""
        raise RuntimeError("no threads on virtual time: use the scripted engines")


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Runs ``main`` to its end on virtual time and returns its result."""
    with asyncio.Runner(loop_factory=VirtualClockLoop) as runner:
        return runner.run(main)
