"""The four engines: each a small Protocol and its real implementations. Fakes live in ``voice.testing``."""
