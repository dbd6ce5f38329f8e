"""The assistant's audio on its way out: clauses -> synthesizer -> wire format -> frames."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterator

import numpy as np
from numpy.typing import NDArray

from voice.audio.formats import float_to_pcm16
from voice.audio.g711 import alaw_encode, ulaw_encode
from voice.audio.levels import first_audible
from voice.audio.resample import StreamResampler
from voice.engines.tts import SpeechSynthesizer
from voice.protocol.session import PCM_RATE_HZ, PcmFormat, UlawFormat, WireFormat
from voice.session.ingress import G711_RATE_HZ

FRAME_MS = 100
"""Longest audio of one event: short enough to stop quickly, long enough to keep the overhead small."""

LEAD_MS = 20
"""Silence kept before the first sound of a reply; the synthesizer's own is longer, and the user would wait for it."""


class SpeechEncoder:
    """Turns clauses into audio frames of one reply, in the session's format, with one resampler from end to end."""

    def __init__(self, tts: SpeechSynthesizer, wire_format: WireFormat, speed: float) -> None:
        self._tts = tts
        self._format = wire_format
        self._speed = speed
        self.rate_hz = PCM_RATE_HZ if isinstance(wire_format, PcmFormat) else G711_RATE_HZ
        self._resampler = StreamResampler(tts.rate_hz, self.rate_hz)
        self._silent_so_far = True
        self.sent_samples = 0
        self.lead_s = 0.0
        """Silence before the first audible sample of the reply, seconds; known once audio has come."""

    @property
    def sent_ms(self) -> float:
        """Length of the audio given out so far."""
        return self.sent_samples * 1000 / self.rate_hz

    async def clause(self, text: str) -> AsyncIterator[NDArray[np.float32]]:
        """Audio of one clause at :attr:`rate_hz`, piece by piece."""
        async for piece in self._tts.synthesize(text, speed=self._speed):
            if self._silent_so_far:
                start = first_audible(piece, self._tts.rate_hz)
                if start is None:
                    continue
                self._silent_so_far = False
                lead = min(start, LEAD_MS * self._tts.rate_hz // 1000)
                self.lead_s = lead / self._tts.rate_hz
                piece = piece[start - lead :]
            yield self._resampler.process(piece)

    def tail(self) -> NDArray[np.float32]:
        """What the resampler still holds at the end of the reply."""
        return self._resampler.flush() if not self._silent_so_far else np.zeros(0, dtype=np.float32)

    def frames(self, samples: NDArray[np.float32]) -> Iterator[str]:
        """The audio as base64 of frames of at most 100 ms, counted as sent when taken."""
        pcm = float_to_pcm16(samples)
        step = FRAME_MS * self.rate_hz // 1000
        for start in range(0, len(pcm), step):
            frame = pcm[start : start + step]
            self.sent_samples += len(frame)
            yield base64.b64encode(self._encode(frame)).decode()

    def _encode(self, pcm: NDArray[np.int16]) -> bytes:
        if isinstance(self._format, PcmFormat):
            return pcm.astype("<i2").tobytes()
        return ulaw_encode(pcm) if isinstance(self._format, UlawFormat) else alaw_encode(pcm)
