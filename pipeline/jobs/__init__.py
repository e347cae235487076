"""What the commands do: reads, pure functions of `pipeline.tables`, writes."""
