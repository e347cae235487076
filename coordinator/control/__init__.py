"""What operators and tests can see and steer, as values: the journal, faults, the timeline. Without sockets or HTTP."""
