"""One writer a model: a lock file that the system frees by itself when its process dies."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path


@contextlib.contextmanager
def exclusive(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Holds the lock file ``path`` for the length of the block; works between threads and between processes.

    Calls ``waiting`` once if someone else holds it, then waits without limit. Raises OSError where the folder cannot
    be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        # The file stays: removing it would let a third process lock a new file of the same name meanwhile.
        yield
