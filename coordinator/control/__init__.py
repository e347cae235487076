"""Values that operators and tests see and steer: the journal, faults, the timeline. Without sockets or HTTP."""
