"""Requests of operators about groups of any type: list, describe and delete."""
