"""Decides. No clock, no die, no socket, no file, no await, no log line."""
