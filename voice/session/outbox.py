"""Events on their way to one client: in order, bounded, and recallable when a response is cancelled."""

from __future__ import annotations

import asyncio
from collections import deque

from voice.protocol import wire
from voice.protocol.base import ServerEventBase


class Outbox:
    """A queue of encoded events between a session and the task that writes to its socket.

    Putting never blocks, so that control events always get through; whoever produces much (audio) waits for
    :meth:`room` first. Overflow policy: none is dropped; the producer is held back.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._queue: deque[tuple[str | None, str]] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._closed = False

    @property
    def pending_bytes(self) -> int:
        """Size of what is not yet taken."""
        return self._bytes

    def put(self, event: ServerEventBase, *, recallable_as: str | None = None) -> None:
        """Adds an event. ``recallable_as`` names the response whose cancellation takes it back if still unsent."""
        if self._closed:
            return
        text = wire.encode(event)
        self._queue.append((recallable_as, text))
        self._bytes += len(text)
        if self._bytes >= self._limit_bytes:
            self._room.clear()
        self._changed.set()

    async def room(self) -> None:
        """Waits until less than the limit is unsent."""
        await self._room.wait()

    def recall(self, response_id: str) -> int:
        """Takes back the unsent events of a response; returns how many there were."""
        kept = deque(entry for entry in self._queue if entry[0] != response_id)
        recalled = len(self._queue) - len(kept)
        self._queue = kept
        self._bytes = sum(len(text) for _, text in kept)
        self._wake_producer()
        return recalled

    async def take(self) -> str | None:
        """The next event as JSON text; None when the outbox is closed and empty."""
        while not self._queue:
            if self._closed:
                return None
            self._changed.clear()
            await self._changed.wait()
        _, text = self._queue.popleft()
        self._bytes -= len(text)
        self._wake_producer()
        return text

    def close(self) -> None:
        """No more events come; those inside can still be taken."""
        self._closed = True
        self._changed.set()

    def _wake_producer(self) -> None:
        if self._bytes < self._limit_bytes:
            self._room.set()
