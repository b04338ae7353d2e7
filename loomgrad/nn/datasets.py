"""Data as NumPy arrays: what ships with the package, and files of data sets.

`data/DIGITS.md` says where the digits come from and under which licence.
"""

from __future__ import annotations

import gzip
import zlib
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from loomgrad.errors import DataError
from loomgrad.nn.idx import idx as idx
from loomgrad.nn.idx import mnist as mnist

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Images = NDArray[numpy.float32]
    Labels = NDArray[numpy.int32]

DIGITS_FILE = Path(__file__).parent / "data" / "digits.bin.gz"
DIGITS_SHA256 = "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"
DIGIT_COUNT = 1797
PIXELS = 64
BRIGHTEST = 16
HELD_OUT = DIGIT_COUNT // 4
SPLIT_SEED = 1998


def digits(path: Path = DIGITS_FILE) -> tuple[Images, Labels, Images, Labels]:
    """Handwritten digits, 8 by 8 pixels: `(train_x, train_y, test_x, test_y)`.

    **Shapes** train_x: (1348, 64), train_y: (1348,), test_x: (449, 64), test_y: (449,).  Pixels are
    float32 from 0 (paper) to 1 (ink), labels int32 from 0 to 9.

    A quarter is held out for testing.  It is drawn by a fixed shuffle of our own, so the split is the
    same on every machine.  The 13 writers are in both parts: the accuracy is that on new digits by known
    hands, not on new hands.

    **Raises** DataError if the file is missing or is not the one that was shipped.
    """
    import numpy

    raw = numpy.frombuffer(_read(path), numpy.uint8)
    boundary = DIGIT_COUNT * PIXELS
    images = raw[:boundary].astype(numpy.float32).reshape(DIGIT_COUNT, PIXELS)
    images /= BRIGHTEST
    labels = raw[boundary:].astype(numpy.int32)
    order = shuffled(DIGIT_COUNT, SPLIT_SEED)
    test, train = order[:HELD_OUT], order[HELD_OUT:]
    return images[train], labels[train], images[test], labels[test]


def shuffled(count: int, seed: int) -> list[int]:
    """The numbers 0 .. count-1 in an order that depends on nothing but `seed`.

    Fisher and Yates' shuffle.  The draws are the high bits of a 64-bit linear congruential generator
    (multiplier and increment by Knuth), which is plenty for a split and needs no library whose stream
    might change.
    """
    order = list(range(count))
    state = seed
    for last in range(count - 1, 0, -1):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        chosen = (state >> 32) * (last + 1) >> 32
        order[last], order[chosen] = order[chosen], order[last]
    return order


def _read(path: Path) -> bytes:
    """The unpacked file, checked to be the one that was shipped."""
    again = "install loomgrad again: the file is part of the package"
    try:
        content = gzip.decompress(path.read_bytes())
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError("the digits cannot be read", file=path, reason=reason, fix=again) from None
    except (EOFError, zlib.error) as error:
        raise DataError("the digits cannot be read", file=path, reason=error, fix=again) from None
    if (found := sha256(content).hexdigest()) != DIGITS_SHA256:
        raise DataError(
            "the digits are not the file that was shipped",
            file=path,
            expected_sha256=DIGITS_SHA256,
            found_sha256=found,
            fix=again,
        )
    return content
