"""Measurements, each a command that prints ratios of one run. See docs/BENCHMARKS.md."""
