"""Model files: the catalog, where each file may come from, and the store that keeps verified copies on disk."""

from voice.weights.catalog import Catalog, Model, load_catalog, models_directory
from voice.weights.progress import Progress, SilentProgress, TerminalProgress
from voice.weights.store import Status, Store

__all__ = [
    "Catalog",
    "Model",
    "Progress",
    "SilentProgress",
    "Status",
    "Store",
    "TerminalProgress",
    "load_catalog",
    "models_directory",
]
