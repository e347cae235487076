"""Spark jobs over group logs and event logs. Meets the server only through files."""
