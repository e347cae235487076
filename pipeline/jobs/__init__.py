"""The jobs of the commands: they read, call the pure functions of `pipeline.tables`, and write."""
