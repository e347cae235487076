"""Tests of coordinator/admin."""
