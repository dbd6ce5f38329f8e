"""What the service counts. Observers only: nothing here changes the flow. Each help text says what is measured."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from voice.timing import CLOCKS, STAGES, TurnTiming

_BUCKETS_S = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)

_HELP = {
    "voice_to_voice_ms": "Arrival of the last voiced user sample until the first audible reply sample goes out",
    "commit_to_audio_ms": "Endpoint decision until the first audible reply sample goes out",
    "asr_final_ms": "Endpoint decision until the final transcript",
    "llm_first_token_ms": "Request to the LLM until its first text",
    "llm_first_clause_ms": "Request to the LLM until its first clause is complete",
    "tts_first_audio_ms": "First clause handed to the synthesizer until its first audio",
}

TURN_SECONDS = {
    name: Histogram(f"voice_{name.removesuffix('_ms')}_seconds", f"{_HELP[name]}, seconds.", buckets=_BUCKETS_S)
    for name in (*CLOCKS, *STAGES)
}

SESSIONS = Gauge("voice_sessions", "Clients connected now.")
TURNS = Counter("voice_user_turns_total", "User turns committed, by what became of them.", ["outcome"])
RESPONSES = Counter("voice_responses_total", "Responses ended, by final status.", ["status"])
ERRORS = Counter("voice_errors_total", "error events sent, by code.", ["code"])
REFUSED = Counter("voice_connections_refused_total", "Connections refused before the upgrade, by reason.", ["reason"])
AUDIO_IN_SECONDS = Counter("voice_audio_in_seconds_total", "User audio received, seconds.")
AUDIO_OUT_SECONDS = Counter("voice_audio_out_seconds_total", "Reply audio handed to the network, seconds.")
LLM_RUNNING = Gauge("voice_llm_requests_running", "LLM requests whose session is still reading them.")
LLM_RUNNING_PEAK = Gauge("voice_llm_requests_running_peak", "Most LLM requests running together since the start.")
LLM_PROMPT_TOKENS = Counter("voice_llm_prompt_tokens_total", "Prompt tokens of all LLM requests.")
LLM_CACHED_TOKENS = Counter("voice_llm_cached_tokens_total", "Prompt tokens found in the prefix cache.")
LLM_COMPLETION_TOKENS = Counter("voice_llm_completion_tokens_total", "Tokens generated for replies.")
ASR_JOBS = Counter(
    "voice_asr_requests_total", "Requests to the recogniser, by claim and by what became of them.", ["claim", "outcome"]
)
ASR_WAITING = Gauge("voice_asr_waiting", "Requests that wait for the recogniser now.")
ASR_WAIT_SECONDS = Histogram(
    "voice_asr_wait_seconds", "Request to the recogniser until its pass began, seconds.", ["claim"], buckets=_BUCKETS_S
)
ASR_PASS_SECONDS = Histogram(
    "voice_asr_pass_seconds",
    "One pass of the recogniser, however many requests it served, seconds.",
    ["depth"],
    buckets=_BUCKETS_S,
)
ASR_BATCH_SIZE = Histogram("voice_asr_batch_requests", "Requests in one pass.", buckets=(1, 2, 3, 4, 6, 8))
ASR_STEPS_SKIPPED = Counter("voice_asr_steps_skipped_total", "Partial steps left out because the recogniser was busy.")
ASR_STEPS_WIDENED = Counter("voice_asr_steps_widened_total", "Partial steps put off because the one before was slow.")
ASR_GUESSES = Counter(
    "voice_asr_guesses_total", "Finals begun in a pause, by whether the turn ended there.", ["outcome"]
)
TRANSCRIPTS_JUDGED = Counter(
    "voice_asr_rejected_total", "Readings that were rejected or cut as not said, by reason.", ["reason"]
)
LOOP_LAG_SECONDS = Gauge("voice_event_loop_lag_seconds", "How late the event loop ran its last timer, seconds.")

_running = 0
_peak = 0


def llm_started() -> None:
    """An LLM request begins."""
    global _running, _peak
    _running += 1
    _peak = max(_peak, _running)
    LLM_RUNNING.set(_running)
    LLM_RUNNING_PEAK.set(_peak)


def llm_ended(prompt_tokens: int, cached_tokens: int, completion_tokens: int) -> None:
    """An LLM request is over, however it ended."""
    global _running
    _running -= 1
    LLM_RUNNING.set(_running)
    LLM_PROMPT_TOKENS.inc(prompt_tokens)
    LLM_CACHED_TOKENS.inc(cached_tokens)
    LLM_COMPLETION_TOKENS.inc(completion_tokens)


def observe_turn(timing: TurnTiming) -> None:
    """Adds the figures of a finished turn."""
    for name, value_ms in timing.figures().items():
        TURN_SECONDS[name].observe(value_ms / 1000)
