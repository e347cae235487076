"""Tests of coordinator/runtime."""
