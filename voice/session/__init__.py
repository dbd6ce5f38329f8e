"""One conversation with one client: binds the turn machine to the engines and owns every task it starts."""

from voice.session.outbox import Outbox
from voice.session.session import Session

__all__ = ["Outbox", "Session"]
