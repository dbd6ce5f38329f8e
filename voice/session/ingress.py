"""The user's audio on its way in: wire bytes -> 16 kHz samples -> detector windows -> turn actions.

All positions are samples at 16 kHz since the session began.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from voice.audio.dc import DcBlocker
from voice.audio.formats import Pcm16Decoder, pcm16_to_float
from voice.audio.g711 import alaw_decode, ulaw_decode
from voice.audio.resample import StreamResampler
from voice.engines.vad import VadStream
from voice.protocol.session import PCM_RATE_HZ, PcmFormat, UlawFormat, WireFormat
from voice.turn.hysteresis import RATE_HZ, WINDOW_SAMPLES
from voice.turn.machine import Action, TurnEnded, TurnMachine, TurnPolicy

G711_RATE_HZ = 8_000
WINDOWS_A_CALL = 64
"""Detector windows handed over at once: 2 s of audio, so that one huge append does not hold up the detector."""


class Ingress:
    """Keeps the audio that a turn may still need and finds the turns in it."""

    def __init__(self, vad: VadStream, wire_format: WireFormat, policy: TurnPolicy | None) -> None:
        self._vad = vad
        self.machine = TurnMachine(policy)
        self._chunks: deque[tuple[int, NDArray[np.float32]]] = deque()  # (first position, samples)
        self._position = 0
        self._windowed = 0  # audio up to here went through the detector
        self._pending = np.zeros(0, dtype=np.float32)
        self._arrivals: deque[tuple[int, float]] = deque(maxlen=4096)
        self._pcm = Pcm16Decoder()
        self.dropped_bytes = 0
        self.set_format(wire_format)

    @property
    def position(self) -> int:
        """Samples received so far."""
        return self._position

    def set_format(self, wire_format: WireFormat) -> None:
        """Audio from now on comes in this format. A half sample of the old one is dropped."""
        self._format = wire_format
        rate_hz = PCM_RATE_HZ if isinstance(wire_format, PcmFormat) else G711_RATE_HZ
        self._resampler = StreamResampler(rate_hz, RATE_HZ)
        self._dc = DcBlocker(RATE_HZ)
        self._drop_half_sample()

    async def feed(self, data: bytes, arrived: float) -> list[Action]:
        """Takes audio in the wire format that arrived at the given time (seconds); returns what the machine decided."""
        samples = self._dc.process(self._resampler.process(self._decode(data)))
        if len(samples):
            self._chunks.append((self._position, samples))
            self._position += len(samples)
            self._arrivals.append((self._position, arrived))
            self._pending = np.concatenate([self._pending, samples])
        actions: list[Action] = []
        while (count := min(len(self._pending) // WINDOW_SAMPLES, WINDOWS_A_CALL)) > 0:
            probabilities = await self._vad.probabilities(self._pending[: count * WINDOW_SAMPLES])
            for index, probability in enumerate(probabilities):
                decided = self.machine.window(probability, self._windowed + (index + 1) * WINDOW_SAMPLES)
                actions += decided
                if any(isinstance(action, TurnEnded) for action in decided):
                    # The detector starts each turn afresh; windows behind the end are looked at again.
                    self._vad.reset()
                    count = index + 1
                    break
            self._windowed += count * WINDOW_SAMPLES
            self._pending = self._pending[count * WINDOW_SAMPLES :]
        return actions

    def commit(self) -> TurnEnded | None:
        """The client ends the turn here; None when there is nothing to commit."""
        self._drop_half_sample()
        ended = self.machine.commit(self._position)
        self._vad.reset()
        return ended

    def clear(self) -> None:
        """The client throws the buffered audio away."""
        self._drop_half_sample()
        self.machine.clear(self._position)
        self._vad.reset()
        self.forget()

    def audio(self, start: int, end: int) -> NDArray[np.float32]:
        """The samples in ``[start, end)``, as far as they are still kept."""
        parts = [
            samples[max(0, start - first) : max(0, end - first)]
            for first, samples in self._chunks
            if first < end and first + len(samples) > start
        ]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.float32)

    def forget(self) -> None:
        """Drops audio that no turn can need any more."""
        keep_from = self.machine.keep_from
        while self._chunks and self._chunks[0][0] + len(self._chunks[0][1]) <= keep_from:
            self._chunks.popleft()

    def arrival(self, position: int) -> float | None:
        """When the sample before ``position`` arrived, its message taken as spoken in real time; None if long ago."""
        for end, arrived in self._arrivals:
            if end >= position:
                return arrived - (end - position) / RATE_HZ
        return None

    def _decode(self, data: bytes) -> NDArray[np.float32]:
        if isinstance(self._format, PcmFormat):
            return pcm16_to_float(self._pcm.feed(data))
        decode = ulaw_decode if isinstance(self._format, UlawFormat) else alaw_decode
        return pcm16_to_float(decode(data))

    def _drop_half_sample(self) -> None:
        self.dropped_bytes += self._pcm.reset()
