"""Whether the service can answer, and if not, why."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from voice import metrics
from voice.config import Config
from voice.engines.bundle import Engines


@dataclass(slots=True)
class Service:
    """What every connection shares. ``engines`` is None until each engine has run once."""

    config: Config
    engines: Engines | None = None
    starting: str = "starting"
    sessions: int = 0

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        """Counts a session while the block runs."""
        self.sessions += 1
        metrics.SESSIONS.set(self.sessions)
        try:
            yield
        finally:
            self.sessions -= 1
            metrics.SESSIONS.set(self.sessions)

    def unready_reason(self) -> str | None:
        """Why no session can be served; None when one can."""
        if self.engines is None:
            return self.starting
        return self.engines.llm.failure()
