"""The documentation, and what makes those parts of it that are read off the code: `python -m docs.generate`."""
