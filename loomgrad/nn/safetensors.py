"""The safetensors format: named tensors in one file that nothing has to be executed to read.

    8 bytes      length of the header, little-endian
    header       JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...,
                        "__metadata__": {"any": "text"}}, padded with spaces
    data         the tensors, row by row, one behind the other without gaps

A file comes from anywhere, so all of it is checked before any of it is used: the header is small and says every
name once, the tensors fill the data exactly and in turn, and each is as long as its shape and dtype say.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import NoReturn

from loomgrad.dtype import DType, dtypes
from loomgrad.errors import DataError
from loomgrad.ir.shape import Shape, size_of
from loomgrad.nn.atomic import replaced_file
from loomgrad.tensor import Tensor

LONGEST_HEADER = 100_000_000
LENGTH_BYTES = 8
ALIGNMENT = 8
METADATA = "__metadata__"
PIECE = 1 << 26  # what is read at once
# fmt: off
DTYPES: dict[str, DType] = {
    "BOOL": dtypes.bool,
    "U8":  dtypes.uint8,   "I8":  dtypes.int8,     "U16": dtypes.uint16,   "I16": dtypes.int16,
    "U32": dtypes.uint32,  "I32": dtypes.int32,    "U64": dtypes.uint64,   "I64": dtypes.int64,
    "F16": dtypes.float16, "BF16": dtypes.bfloat16, "F32": dtypes.float32, "F64": dtypes.float64,
    "F8_E4M3": dtypes.fp8e4m3, "F8_E5M2": dtypes.fp8e5m2,
    "F8_E4M3FNUZ": dtypes.fp8e4m3fnuz, "F8_E5M2FNUZ": dtypes.fp8e5m2fnuz,
}
# fmt: on
NAMES = {dtype: name for name, dtype in DTYPES.items()}
# What other formats begin with, and what they are.
FOREIGN = (
    (b"PK\x03\x04", "a zip archive, as torch.save writes them: it holds a pickle"),
    (b"\x80", "a pickle"),
    (b"GGUF", "a GGUF file"),
    (b"\x93NUMPY", "an array of NumPy"),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of a file: what it is, and from which byte of the data to which."""

    name: str
    dtype: DType
    shape: Shape
    begin: int
    end: int


# ---- writing


def safe_save(
    tensors: Mapping[str, Tensor], path: str | Path, metadata: Mapping[str, str] | None = None
) -> None:
    """Write named tensors, and text about them, to a file.

    The file appears under its name when it is complete; what was there before stays until then.

    **Raises** DataError for names or values that the format cannot hold, OSError if it cannot be written.
    """
    _check_writable(tensors, metadata or {})
    if tensors:
        Tensor.realize(*tensors.values())
    # Longer elements first: with a padded header, each tensor then lies at a multiple of its element's size.
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    header = _header({name: tensors[name] for name in order}, metadata or {})
    with replaced_file(path) as file:
        file.write(len(header).to_bytes(LENGTH_BYTES, "little"))
        file.write(header)
        for name in order:
            if tensors[name].nbytes():
                file.write(tensors[name].data())


def _check_writable(tensors: Mapping[str, object], metadata: Mapping[str, object]) -> None:
    """What a caller without a type checker may have passed."""
    for name, tensor in tensors.items():
        if not _is_text(name) or name == METADATA:
            raise DataError(f"a tensor cannot be named {name!r} in a safetensors file")
        if not isinstance(tensor, Tensor) or tensor.dtype not in NAMES:
            kind = tensor.dtype.name if isinstance(tensor, Tensor) else type(tensor).__name__
            fix = "wrap or cast it, e.g. Tensor([3]); text goes into metadata="
            raise DataError(f"{name!r} is a {kind}, which the format cannot hold", fix=fix)
    for key, text in metadata.items():
        if not _is_text(key) or not _is_text(text):
            fix = "use str() or json.dumps()"
            raise DataError(f"metadata must be text by name, not {key!r}: {text!r}", fix=fix)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _header(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    fields: dict[str, object] = {METADATA: dict(metadata)} if metadata else {}
    end = 0
    for name, tensor in tensors.items():
        begin, end = end, end + tensor.nbytes()
        kind = NAMES[tensor.dtype]
        fields[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [begin, end]}
    try:
        text = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as error:
        raise DataError("a name or text has no UTF-8 form", text=repr(error.object)) from None
    if len(text) > LONGEST_HEADER:
        raise DataError(
            f"names and metadata take {len(text)} bytes",
            limit=LONGEST_HEADER,
            fix="keep them short",
        )
    return text + b" " * (-len(text) % ALIGNMENT)


# ---- reading


def safe_load(path: str | Path, device: str | None = None) -> dict[str, Tensor]:
    """The tensors of a file by name, in the order of its data.

    **Raises** DataError if the file is missing, cut off, or not what the format allows; nothing in it is executed.
    """
    return read_file(path, device)[0]


def read_file(
    path: str | Path, device: str | None = None
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a file, and the text that it says about itself.  Raises as `safe_load`."""
    with _opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        entries, metadata = _checked_header(file, size, path)
        tensors = {entry.name: _read_tensor(file, entry, device, path) for entry in entries}
    return tensors, metadata


def safe_metadata(path: str | Path) -> dict[str, str]:
    """The text that a file says about itself.  The tensors are checked but not read."""
    with _opened(path) as file:
        return _checked_header(file, os.fstat(file.fileno()).st_size, path)[1]


@contextmanager
def _opened(path: str | Path) -> Iterator[FileIO]:
    try:
        with Path(path).open("rb", buffering=0) as file:
            yield file
    except OSError as error:
        raise DataError(
            "the file cannot be read", file=path, reason=error.strerror or error
        ) from None


def _refuse(path: str | Path, problem: str) -> NoReturn:
    raise DataError(f"this is no valid safetensors file: {problem}", file=path)


def _checked_header(
    file: FileIO, size: int, path: str | Path
) -> tuple[list[Entry], dict[str, str]]:
    """What the header says, after everything about it has been checked against the size of the file."""
    start = _read(file, min(size, LENGTH_BYTES), path)
    for mark, meaning in FOREIGN:
        if start.startswith(mark) and int.from_bytes(start, "little") > LONGEST_HEADER:
            raise DataError(
                f"the file is {meaning}",
                file=path,
                fix="loomgrad executes nothing that a file says; write the tensors again as safetensors, with "
                "loomgrad.save or, from PyTorch, safetensors.torch.save_file",
            )
    if size < LENGTH_BYTES:
        _refuse(path, f"{size} bytes are too few for the length of a header")
    length = int.from_bytes(start, "little")
    if length > LONGEST_HEADER:
        _refuse(path, f"a header of {length} bytes; at most {LONGEST_HEADER} are allowed")
    data_size = size - LENGTH_BYTES - length
    if data_size < 0:
        _refuse(path, f"the header of {length} bytes is cut off, the file has {size}")
    fields = _parsed(_read(file, length, path), path)
    metadata = _metadata(fields.pop(METADATA, {}), path)
    entries = [_entry(name, field, path) for name, field in fields.items()]
    entries.sort(key=lambda entry: (entry.begin, entry.end))
    _check_tiling(entries, data_size, path)
    return entries, metadata


def _parsed(header: bytearray, path: str | Path) -> dict[str, object]:
    """The JSON of a header; a name that is said twice could mean either."""

    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in found if names.count(name) > 1)
            _refuse(path, f"the header says {twice!r} twice")
        return found

    try:
        fields = json.loads(header.decode(), object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        _refuse(path, f"its header is not JSON: {error}")
    if not isinstance(fields, dict):
        _refuse(path, f"its header is a {type(fields).__name__}, not an object")
    return fields


def _metadata(found: object, path: str | Path) -> dict[str, str]:
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        _refuse(path, f"{METADATA} is not text by name")
    return found


def _entry(name: str, field: object, path: str | Path) -> Entry:
    if not isinstance(field, dict) or field.keys() != {"dtype", "shape", "data_offsets"}:
        _refuse(path, f"{name!r} needs a dtype, a shape and data_offsets, and nothing else")
    dtype = DTYPES.get(field["dtype"]) if isinstance(field["dtype"], str) else None
    if dtype is None:
        _refuse(path, f"{name!r} has the dtype {field['dtype']!r}; known are {', '.join(DTYPES)}")
    shape, offsets = _counts(field["shape"]), _counts(field["data_offsets"])
    if shape is None:
        _refuse(path, f"{name!r} has the shape {field['shape']!r}")
    if offsets is None or len(offsets) != 2 or offsets[0] > offsets[1]:
        _refuse(path, f"{name!r} has the data_offsets {field['data_offsets']!r}")
    if size_of(shape) * dtype.itemsize != offsets[1] - offsets[0]:
        _refuse(
            path,
            f"{name!r} does not fit its place: {dtype.name} of shape {shape} at bytes {offsets[0]} to {offsets[1]}",
        )
    return Entry(name, dtype, shape, *offsets)


def _counts(found: object) -> tuple[int, ...] | None:
    """A list of whole numbers from 0 to 2**63 - 1 as a tuple, None if it is anything else."""
    if not isinstance(found, list):
        return None
    fits = all(type(number) is int and 0 <= number < 1 << 63 for number in found)
    # The product of many sizes is a number of many digits: no tensor has so many axes.
    return tuple(found) if fits and len(found) <= 64 else None


def _check_tiling(entries: list[Entry], data_size: int, path: str | Path) -> None:
    """Every byte of the data belongs to one tensor."""
    end = 0
    for entry in entries:
        if entry.begin < end:
            _refuse(path, f"{entry.name!r} begins at {entry.begin}, inside of the tensor before it")
        if entry.begin > end:
            _refuse(path, f"no tensor uses the bytes {end} to {entry.begin} of the data")
        end = entry.end
    if end > data_size:
        _refuse(path, f"it is cut off: {data_size} bytes of data of {end}")
    if end < data_size:
        _refuse(path, f"{data_size - end} bytes follow the last tensor")


def _read_tensor(file: FileIO, entry: Entry, device: str | None, path: str | Path) -> Tensor:
    """The next tensor of the data, read into its own memory piece by piece."""
    made = Tensor.empty(entry.shape, dtype=entry.dtype, device=device)
    size = entry.end - entry.begin
    for begin in range(0, size, PIECE):
        piece = _read(file, min(PIECE, size - begin), path)
        if entry.dtype.is_bool and piece.strip(b"\0\1"):
            _refuse(path, f"{entry.name!r} has bytes that are neither true nor false")
        made._buffer().view(len(piece), dtypes.uint8, begin).copyin(piece)
    return made


def _read(file: FileIO, count: int, path: str | Path) -> bytearray:
    """Exactly so many bytes; one call of the system may give less than was asked for."""
    content = bytearray(count)
    done = 0
    while done < count:
        got = file.readinto(memoryview(content)[done:])
        if not got:
            _refuse(path, f"it ends {count - done} bytes too early")
        done += got
    return content
