"""The completion marker of a model's folder: written last, so that a folder without a matching one is not a model."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from voice.weights.catalog import relative_path
from voice.weights.fetch import file_sha256, sync_folder

MARKER = ".complete.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class FileRecord:
    """What a file was when the model was completed."""

    size: int
    """Bytes."""

    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """All files of a complete model, by path relative to its folder, and how they came about."""

    files: Mapping[str, FileRecord]
    origin: Mapping[str, Any] = field(default_factory=dict)
    """For a hub download ``repo``, ``revision`` and ``commit``; for a build ``recipe``, ``chosen`` and ``from``."""

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(record.size for record in self.files.values())

    def misfits(self, folder: Path) -> list[str]:
        """Files that are missing or not as long as recorded. Quick: nothing is read."""
        return [name for name, record in self.files.items() if _length(folder / name) != record.size]

    def corrupt(self, folder: Path) -> list[str]:
        """Files that are missing or not what was recorded. Reads everything."""
        found = self.misfits(folder)
        for name, record in self.files.items():
            if name not in found and file_sha256(folder / name) != record.sha256:
                found.append(name)
        return found


def read_manifest(folder: Path) -> Manifest | None:
    """The folder's marker, or None where it is missing or unreadable."""
    try:
        data = json.loads((folder / MARKER).read_text("utf-8"))
        if data["format"] != _FORMAT:
            return None
        files = {
            relative_path(name): FileRecord(int(record["bytes"]), str(record["sha256"]))
            for name, record in data["files"].items()
        }
        return Manifest(files, dict(data["origin"])) if files else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Writes the marker atomically and durably. Raises OSError."""
    data = {
        "format": _FORMAT,
        "origin": dict(manifest.origin),
        "files": {name: {"bytes": r.size, "sha256": r.sha256} for name, r in manifest.files.items()},
    }
    part = folder / (MARKER + ".part")
    with part.open("w", encoding="utf-8") as file:
        json.dump(data, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    part.replace(folder / MARKER)
    sync_folder(folder)


def remove_manifest(folder: Path) -> None:
    """Takes the marker away: the folder is no complete model from now on."""
    (folder / MARKER).unlink(missing_ok=True)


def record_folder(folder: Path) -> dict[str, FileRecord]:
    """Hashes every file of a folder, and flushes each to disk. Raises OSError."""
    records = {}
    for path in _walk(folder):
        with path.open("rb") as file:
            os.fsync(file.fileno())
        records[path.relative_to(folder).as_posix()] = FileRecord(path.stat().st_size, file_sha256(path))
    return records


def _walk(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in (MARKER, MARKER + ".part"):
            yield path


def _length(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
