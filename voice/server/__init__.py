"""The asyncio shell: WebSocket and HTTP on one port. Everything that decides lives elsewhere."""
