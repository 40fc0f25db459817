"""Every test and helper is imported by its full name, `tests.…`, so no folder here can be mistaken for another package."""
