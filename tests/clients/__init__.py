"""Helpers in other languages."""
