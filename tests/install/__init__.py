"""Wheels as they are installed, beside packages of others."""
