"""The client of a server's control, for tests in Python: `Control` and, for asyncio, `AsyncControl` (docs/control.md)."""
