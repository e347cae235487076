"""Released clients of other languages against a live server: separate commands, not part of the default test run."""
