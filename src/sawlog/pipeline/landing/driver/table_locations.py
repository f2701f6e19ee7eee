"""Whether tables can be written where the file wants them: found out before anything is begun."""

import os
import tempfile
from pathlib import Path


def unwritable(lake: str) -> str | None:
    """Why this directory cannot be made or written to, and what to do; None where it can. Tried at
    the nearest directory that is there, with one that is taken away again: permissions alone do
    not tell of file systems that are read-only or take no files.
    """
    nearest = _nearest(Path(lake))
    does = "be written to" if nearest == Path(lake) else "be made"
    advice = "choose another directory for 'lake', or let this user write there"
    if not nearest.is_dir():
        return f"the lake {lake} cannot {does}: {nearest} is no directory; {advice}"
    try:
        with tempfile.TemporaryDirectory(prefix=".sawlog-", dir=nearest):
            return None
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        return f"the lake {lake} cannot {does}: writing in {nearest} fails: {reason}; {advice}"


def _nearest(path: Path) -> Path:
    """The first that is there, from the path upwards; there is always the root."""
    return next(place for place in (path, *path.parents) if os.path.lexists(place))
