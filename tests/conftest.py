"""What test folders share: the real engine set (one for the whole run) and the recordings beside the project."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from voice.config import Config, EngineConfig
from voice.engines.bundle import Engines, find_models, load_engines

RECORDINGS = Path(__file__).resolve().parents[2] / "shared" / "speech"

ENGINE_CONFIG = EngineConfig(kv_cache_gib=0.25, max_model_len=1024, max_sessions=8)
"""Small: the tests share two cores and the memory of whatever else runs there."""


@pytest.fixture(scope="session")
def recordings() -> Path:
    """The folder of real recordings; they are not part of the project."""
    if not RECORDINGS.is_dir():
        pytest.skip("the recordings (../shared/speech) are not here")
    return RECORDINGS


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def engines() -> AsyncIterator[Engines]:
    """Real Whisper, vLLM, Piper and Silero; models are pulled and built on the first run."""
    config = Config(engines=ENGINE_CONFIG)
    models = await asyncio.to_thread(find_models, ENGINE_CONFIG, offline=False)
    loaded = await load_engines(ENGINE_CONFIG, models, lambda line: None)
    await loaded.warm_up(config.system_prompt, config, lambda line: None)
    yield loaded
    await loaded.close()
