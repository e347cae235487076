"""Checks of requests against the access rules, before they are decided."""
