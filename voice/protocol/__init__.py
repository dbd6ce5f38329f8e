"""The OpenAI Realtime (GA) wire protocol as typed events: JSON text in, frozen structs out, and back. Knows no socket.

One small file per event family. Absent optionals are left out of the JSON (``UNSET``); ``None`` is written as ``null``
only where clients expect a null (``transcript`` of a user's audio, ``previous_item_id``, ``status_details`` and so on):
strict clients drop an event, or the connection, over a null in the wrong place.
"""
