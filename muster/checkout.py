"""Let `muster.coordinator` and its neighbours be imported in a checkout, where they lie under their short names.

`muster.coordinator.core` is the module `coordinator.core` then, the same object. Wheels have no such module: there
`hatch_build.py` has moved the packages to where they are named.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

PACKAGES: Final = ("coordinator", "protocol", "storage", "pipeline")


class Alias(MetaPathFinder, Loader):
    """A finder and loader of `muster.X`, which is `X`."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return a spec for a module of ours below `muster`, None for any other."""
        top, _, rest = name.partition(".")
        if top != "muster" or rest.partition(".")[0] not in PACKAGES:
            return None
        return ModuleSpec(name, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module with the short name."""
        self._spec = (module := import_module(spec.name.partition(".")[2])).__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it is: it has run. The import system has given it the spec of its other name."""
        module.__spec__ = self._spec


sys.meta_path.insert(0, Alias())
