"""Sound as numbers, without a clock, a socket or a model: sample formats, G.711, resampling, levels and WAV files.

Arrays are mono. ``float32`` samples lie in [-1, 1]; ``int16`` samples are what PCM16 puts on the wire.
"""

from __future__ import annotations

from voice.audio.formats import Pcm16Decoder, float_to_pcm16, pcm16_to_float
from voice.audio.g711 import alaw_decode, alaw_encode, ulaw_decode, ulaw_encode
from voice.audio.levels import fade, first_audible, last_audible, rms_dbfs, trim_silence
from voice.audio.resample import StreamResampler, resample
from voice.audio.wav import read_wav, write_wav

__all__ = [
    "Pcm16Decoder",
    "StreamResampler",
    "alaw_decode",
    "alaw_encode",
    "fade",
    "first_audible",
    "float_to_pcm16",
    "last_audible",
    "pcm16_to_float",
    "read_wav",
    "resample",
    "rms_dbfs",
    "trim_silence",
    "ulaw_decode",
    "ulaw_encode",
    "write_wav",
]
