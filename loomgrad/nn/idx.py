"""IDX files, the format of MNIST: a magic number, big-endian sizes, and the elements; plain or gzip."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from loomgrad.errors import DataError

if TYPE_CHECKING:
    from numpy import float32, generic, int32
    from numpy.typing import NDArray

    Array = NDArray[generic]

# The third byte of the magic number, and NumPy's name for elements of that kind.
KINDS = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
GZIP = b"\x1f\x8b"
MOST_AXES = 8
MOST_ELEMENTS = 1 << 59
PIECE = 1 << 24
# fmt: off
MNIST_FILES = (
    "train-images-idx3-ubyte", "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",  "t10k-labels-idx1-ubyte",
)
# fmt: on


class Mnist(NamedTuple):
    """The four parts of a data set in MNIST's files."""

    train_x: NDArray[float32]
    train_y: NDArray[int32]
    test_x: NDArray[float32]
    test_y: NDArray[int32]


def idx(path: str | Path) -> Array:
    """The array in an IDX file, packed by gzip or not, in its shape and in this machine's byte order.

    **Raises** DataError if the file is missing, damaged, cut off, or no IDX file.
    """
    import numpy

    try:
        with _opened(Path(path)) as file:
            kind, shape = _header(file, path)
            dtype = numpy.dtype(kind)
            needed = math.prod(shape) * dtype.itemsize
            content = _read(file, needed + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError("the file cannot be read", file=path, reason=reason) from None
    if len(content) != needed:
        what = f"cut off: {len(content)} are there" if len(content) < needed else "longer"
        raise DataError(f"{shape} elements take {needed} bytes; the file is {what}", file=path)
    native = numpy.frombuffer(content, dtype).astype(dtype.newbyteorder("="))
    return native.reshape(shape)


def _opened(path: Path) -> BinaryIO:
    """The unpacked bytes; what the file is called does not matter."""
    with path.open("rb") as file:
        packed = file.read(2) == GZIP
    return cast(BinaryIO, gzip.open(path)) if packed else path.open("rb")


def _header(file: BinaryIO, path: str | Path) -> tuple[str, tuple[int, ...]]:
    """The kind of the elements and the sizes of the axes."""
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in KINDS or magic[3] > MOST_AXES:
        raise DataError(
            "this is no IDX file",
            file=path,
            begins_with=magic.hex(" ") or "nothing",
            fix="an IDX file begins with 00 00, a byte for the kind of element (08 to 0e), and the number of axes",
        )
    sizes = file.read(4 * magic[3])
    if len(sizes) < 4 * magic[3]:
        raise DataError(f"the file is cut off within the sizes of its {magic[3]} axes", file=path)
    shape = struct.unpack(f">{magic[3]}I", sizes)
    if math.prod(max(size, 1) for size in shape) >= MOST_ELEMENTS:
        raise DataError(f"no array has the shape {shape}", file=path)
    return KINDS[magic[2]], shape


def _read(file: BinaryIO, count: int) -> bytearray:
    """So many bytes or all there are; piece by piece, as the count is the file's word only."""
    content = bytearray()
    while piece := file.read(min(PIECE, count - len(content))):
        content += piece
    return content


def mnist(folder: str | Path) -> Mnist:
    """The images and labels of a folder with MNIST's four files, packed or not.

    **Shapes** train_x: (n, height, width), train_y: (n,), test_x: (m, height, width), test_y: (m,).  Pixels are
    float32 from 0 to 1, labels int32.

    **Raises** DataError, naming all files, if some are missing; or the one that is damaged or does not fit its
    pair.
    """
    found = [_file(Path(folder), name) for name in MNIST_FILES]
    missing = [name for name, path in zip(MNIST_FILES, found, strict=True) if path is None]
    if missing:
        raise DataError(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not in the folder",
            folder=folder,
            fix=f"put {', '.join(MNIST_FILES)} there, each with or without .gz",
        )
    paths = [path for path in found if path is not None]
    return Mnist(*_pair(paths[0], paths[1]), *_pair(paths[2], paths[3]))


def _file(folder: Path, name: str) -> Path | None:
    """A file with or without .gz; some copies of the data write a dot for the last but one hyphen."""
    dotted = name.replace("-idx", ".idx")
    candidates = [folder / (spelling + end) for spelling in (name, dotted) for end in ("", ".gz")]
    return next((path for path in candidates if path.is_file()), None)


def _pair(images: Path, labels: Path) -> tuple[NDArray[float32], NDArray[int32]]:
    """Images and their labels, as many of one as of the other."""
    import numpy

    x, y = _bytes_of_rank(images, 3, "images"), _bytes_of_rank(labels, 1, "labels")
    if len(x) != len(y):
        raise DataError(
            f"there are {len(x)} images and {len(y)} labels", images=images, labels=labels
        )
    return x.astype(numpy.float32) / numpy.float32(255), y.astype(numpy.int32)


def _bytes_of_rank(path: Path, rank: int, what: str) -> Array:
    found = idx(path)
    if found.ndim != rank or found.dtype.str[1:] != "u1":
        raise DataError(
            f"the file holds no {what}: {found.ndim} axes of {found.dtype.name}, not {rank} of uint8",
            file=path,
            fix="are images and labels exchanged?" if found.ndim in (1, 3) else "",
        )
    return found
