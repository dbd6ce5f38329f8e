"""Every default in one place, with its unit and the reason for its value."""

from __future__ import annotations

from dataclasses import dataclass, field

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8765

DEFAULT_ASR = "whisper-base"
DEFAULT_LLM = "smollm2-135m-instruct-w8a8"
DEFAULT_TTS = "en_US-joe-medium"
DEFAULT_VAD = "silero-vad"

DEFAULT_SYSTEM_PROMPT = (
    "You are a voice assistant who knows many facts. Give short, correct answers in English. "
    "Use plain words and short sentences."
)
"""Chosen by trying (docs/benchmarks/answers.md): "short" makes replies that are pleasant to hear, "in English" keeps
the small default model from slipping into French when asked about France."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the LLM picks tokens."""

    temperature: float = 0.0
    """0 is greedy: the same question gets the same answer, and tests can rely on it. Sampling scored no better."""

    top_p: float = 1.0
    """Share of the probability that is sampled from; without effect at temperature 0."""

    repetition_penalty: float = 1.05
    """Above 1 keeps small models from looping. vLLM counts the prompt's words too: 1.2 keeps the model from using the
    question's own words in its answer, and replies ramble. Chosen by trying (docs/benchmarks/answers.md)."""

    max_tokens: int = 64
    """About 16 s of speech: a longer spoken answer is a lecture. Also the guard against runaway generation."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Which models to load, and what of the machine they may use. Model names are catalog names, paths or hub names."""

    asr: str = DEFAULT_ASR
    llm: str = DEFAULT_LLM
    tts: str = DEFAULT_TTS
    vad: str = DEFAULT_VAD

    llm_url: str | None = None
    """Base URL of an OpenAI-compatible server (ending in /v1) to use in place of vLLM in this process."""

    llm_api_key: str | None = None

    language: str | None = "en"
    """Whisper's language; None lets it detect the language of each turn."""

    threads: int | None = None
    """CPU threads of one engine; None takes the CPUs that this process may really use."""

    kv_cache_gib: float = 0.5
    """KV cache of the LLM, GiB. SmolLM2-135M needs 45 KiB a token: half a GiB holds about 11,000 tokens."""

    max_model_len: int = 2048
    """Longest prompt plus reply, tokens. A spoken conversation of 40 turns fits."""

    max_sessions: int = 16
    """Most LLM requests in one batch, and most sessions connected at once."""

    gpu_memory_utilization: float = 0.55
    """Share of the GPU's memory for vLLM; the rest is for Whisper and the CUDA context of this process."""

    llm_compile: bool = False
    """Compile the LLM's graph (torch.compile, CUDA graphs): on a CPU, 3 times the start-up for 13 % less a token."""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Where the service listens, and its limits."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT

    max_message_bytes: int = 24 * 1024 * 1024
    """Largest WebSocket message. The protocol lets one append hold 15 MiB of audio, 20 MiB as base64."""

    max_turn_s: float = 60.0
    """Longest uncommitted audio kept for a session, seconds; beyond it the turn is committed."""

    ping_interval_s: float = 20.0
    """Between keepalive pings; some clients send none themselves."""

    send_buffer_bytes: int = 512 * 1024
    """Unsent output kept for one client before the reply waits for the network."""

    send_timeout_s: float = 20.0
    """A client that takes nothing for this long is dropped."""


@dataclass(frozen=True, slots=True)
class Config:
    """The whole service."""

    engines: EngineConfig = field(default_factory=EngineConfig)
    server: ServerConfig = field(default_factory=ServerConfig)
    sampling: Sampling = field(default_factory=Sampling)
    system_prompt: str = DEFAULT_SYSTEM_PROMPT
