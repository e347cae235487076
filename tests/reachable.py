"""What an object refers to: to see that nothing is kept of what is over."""

import gc
from types import FunctionType, ModuleType


def find_reachable(root: object) -> dict[int, object]:
    """What an object refers to, directly or not, but for modules, classes and the names that functions look up."""
    found, left = dict[int, object](), [root]
    while left:
        one = left.pop()
        if id(one) in found or isinstance(one, ModuleType | type):
            continue
        found[id(one)] = one
        left += (one.__closure__, one.__defaults__) if isinstance(one, FunctionType) else gc.get_referents(one)
    return found
