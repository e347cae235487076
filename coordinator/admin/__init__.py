"""The edge to operators: health, metrics and views over HTTP."""
