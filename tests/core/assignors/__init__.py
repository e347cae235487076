"""The assignors as pure functions: balanced, sticky, valid, deterministic."""
