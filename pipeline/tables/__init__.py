"""The derived tables: pure functions DataFrame -> DataFrame, one folder of them, no reads and no writes."""
