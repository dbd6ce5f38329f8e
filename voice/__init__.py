"""A low-latency voice assistant service: Whisper, a quantized LLM and Piper behind one WebSocket."""

__version__ = "0.1.0"
