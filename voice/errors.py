"""Errors meant for people: each message is one line that says what is wrong and what to do about it."""

from __future__ import annotations


def one_line(error: BaseException) -> str:
    """The first line of what an exception says, or its type where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class VoiceError(Exception):
    """Something the user can fix. The command line prints the message alone (no traceback) and exits with code 2."""


class AudioFileError(VoiceError):
    """A sound file is missing, empty, truncated or in a format that cannot be read."""


class ModelError(VoiceError):
    """A model is missing, incomplete, corrupt or unfit."""


class ResourceError(VoiceError):
    """The machine lacks something: memory, disk space, a free port, an audio device."""


class ServiceError(VoiceError):
    """The voice service could not be reached, refused, or failed the request."""
