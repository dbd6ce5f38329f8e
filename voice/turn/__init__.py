"""Who speaks when. Pure: events with sample positions in, actions out; no asyncio, no engine, no clock.

Positions are samples at 16 kHz since the session began, so the same audio gives the same turns at any pace.
"""
