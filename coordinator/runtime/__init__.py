"""The turn: what is ready is decided, appended once, and answered in order."""
