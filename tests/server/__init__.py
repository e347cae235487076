"""Tests of coordinator/server."""
