"""CRC-32C from the extension module of the package `crc32c`.

Importing the package itself reads its version with importlib.metadata, which takes a tenth of a
broker's start time. So only the extension module is loaded.
"""

from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crc32c import crc32c
else:

    def _extension() -> Any:
        package = PathFinder.find_spec("crc32c")
        if package is not None:
            places = package.submodule_search_locations
            spec = PathFinder.find_spec("crc32c._crc32c", places)
            if spec is not None and spec.loader is not None:
                module = module_from_spec(spec)
                spec.loader.exec_module(module)
                return module
        import crc32c as whole  # the package has another layout, or is missing

        return whole

    crc32c = _extension().crc32c

__all__ = ["crc32c"]
