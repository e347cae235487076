"""A priority queue that breaks ties as Java's does."""

from collections.abc import Iterable


class JavaQueue:
    """A binary heap that returns equal loads in the order in which `java.util.PriorityQueue` returns them.

    `heapq` lets an entry rise or sink past equal ones where Java does not, so ties come out in another order, and a tie
    decides which member gets a task. An entry is (load, value); values are not compared.
    """

    def __init__(self, entries: Iterable[tuple[float, int]]) -> None:
        self._heap: list[tuple[float, int]] = []
        for load, value in entries:
            self.add(load, value)

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, load: float, value: int) -> None:
        """Add an entry below those that are as small."""
        heap = self._heap
        heap.append((load, value))
        at = len(heap) - 1
        while at:
            parent = (at - 1) >> 1
            if load >= heap[parent][0]:
                break
            heap[at] = heap[parent]
            at = parent
        heap[at] = (load, value)

    def poll(self) -> int:
        """Remove the first entry, and return its value."""
        heap = self._heap
        first = heap[0][1]
        last = heap.pop()
        if heap:
            self._sink(last)
        return first

    def _sink(self, entry: tuple[float, int]) -> None:
        """Place an entry at the top, and below all that is smaller."""
        heap, load = self._heap, entry[0]
        size = len(heap)
        at, child = 0, 1
        while child < size:
            right = child + 1
            if right < size and heap[child][0] > heap[right][0]:
                child = right
            if load <= heap[child][0]:
                break
            heap[at] = heap[child]
            at, child = child, 2 * child + 1
        heap[at] = entry
