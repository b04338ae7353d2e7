"""Files that are either the old or the new one, never half of the new one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replaced_file(path: str | Path) -> Iterator[BinaryIO]:
    """A new file to write to, which takes the place of `path` when the block ends without an error.

    It is written beside `path`, because a rename is atomic within one file system only, and reaches the disk before
    it is renamed.  A link stays a link.
    """
    target = Path(os.path.realpath(path))
    made = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with made.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        made.replace(target)
    except BaseException:
        with suppress(OSError):
            made.unlink()
        raise
