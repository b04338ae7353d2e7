"""Safetensors: round trips, exchange with the reference package, and files that must be refused."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors as reference
from hypothesis import given
from hypothesis import strategies as st

from loomgrad import Tensor, dtypes
from loomgrad.dtype import DType
from loomgrad.errors import DataError
from loomgrad.nn import safetensors
from loomgrad.nn.atomic import replaced_file
from loomgrad.nn.safetensors import DTYPES, safe_load, safe_metadata, safe_save

FLAT = [0.0, 1.0, 1.5, -2.0, 0.25, 3.0]


def content(everything: bytes) -> Callable[[Path], object]:
    """Makes a file of these bytes."""
    return lambda path: path.write_bytes(everything)


def header(
    fields: object, data: bytes = b"", length: int | None = None, raw: bytes = b""
) -> Callable[[Path], object]:
    """Makes a file with any header; `length` is what it claims, `raw` is the header as bytes."""
    text = raw or json.dumps(fields).encode()
    size = len(text) if length is None else length
    return content(size.to_bytes(8, "little") + text + data)


def field(shape: object, begin: object, end: object, dtype: object = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_every_dtype_comes_back_bit_by_bit(dtype: DType, tmp_path: Path) -> None:
    raw = b"\0\1" * (3 * dtype.itemsize)
    values = Tensor.empty(2, 3, dtype=dtype)
    values._buffer().copyin(raw)
    safe_save({"x": values}, tmp_path / "x.safetensors")
    found = safe_load(tmp_path / "x.safetensors")["x"]
    assert found.dtype is dtype and found.shape == (2, 3)
    assert bytes(found.data()) == raw


def test_the_reference_package_reads_what_we_write(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    tensors = {
        "bias": Tensor([True, False, True]),
        "layer.weight": Tensor([FLAT, FLAT]),
        "half": Tensor(FLAT, dtype=dtypes.float16),
        "short": Tensor(FLAT, dtype=dtypes.bfloat16),
        "naïve": Tensor([1, 2], dtype=dtypes.int64),
        "scalar": Tensor(2.5, dtype=dtypes.float64),
        "none": Tensor.zeros(0, 3),
    }
    safe_save(tensors, path, {"format": "np", "step": "3"})
    with reference.safe_open(path, "np") as file:
        assert file.metadata() == {"format": "np", "step": "3"}
        assert set(file.keys()) == set(tensors)
        for name in set(tensors) - {"short"}:  # NumPy has no bfloat16
            found = file.get_tensor(name)
            assert found.shape == tensors[name].shape
            np.testing.assert_array_equal(found, tensors[name].numpy())
        assert file.get_slice("short").get_dtype() == "BF16"


def test_we_read_what_the_reference_package_writes(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    arrays = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.array([[True], [False]]),
        "c": np.arange(4, dtype=np.uint16),
        "empty": np.zeros((3, 0), np.int8),
        "d": np.array(1.5),
    }
    from safetensors.numpy import save_file

    save_file(arrays, str(path), {"by": "reference"})
    found = safe_load(path)
    assert safe_metadata(path) == {"by": "reference"} and set(found) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name].numpy(), array)
        assert found[name].numpy().dtype == array.dtype


def test_views_are_written_as_they_look(tmp_path: Path) -> None:
    """B196: tensors that are views of one storage."""
    base = Tensor.arange(100, dtype=dtypes.float32).realize()
    views = {"a": base, "b": base[5:], "c": base.reshape(10, 10).T, "d": base[::7].flip(0)}
    safe_save(views, tmp_path / "views")
    found = safe_load(tmp_path / "views")
    for name, view in views.items():
        np.testing.assert_array_equal(found[name].numpy(), view.numpy())


def test_each_tensor_lies_at_a_multiple_of_its_element(tmp_path: Path) -> None:
    tensors = {
        "a": Tensor([1], dtype=dtypes.uint8),
        "b": Tensor([1.0], dtype=dtypes.float64),
        "c": Tensor([1.0, 2.0, 3.0], dtype=dtypes.float16),
        "d": Tensor([1.0]),
    }
    safe_save(tensors, tmp_path / "x", {"odd": "length"})
    written = (tmp_path / "x").read_bytes()
    length = int.from_bytes(written[:8], "little")
    fields = json.loads(written[8 : 8 + length])
    for name, tensor in tensors.items():
        assert (8 + length + fields[name]["data_offsets"][0]) % tensor.dtype.itemsize == 0


def test_an_empty_file_of_no_tensors(tmp_path: Path) -> None:
    safe_save({}, tmp_path / "x")
    assert safe_load(tmp_path / "x") == {} and safe_metadata(tmp_path / "x") == {}


def test_reading_opens_one_file_and_closes_it(tmp_path: Path) -> None:
    """B201: no descriptor stays open."""
    safe_save({"x": Tensor(FLAT)}, tmp_path / "x")
    before = len(os.listdir("/proc/self/fd"))
    kept = [safe_load(tmp_path / "x") for _ in range(50)]
    assert len(os.listdir("/proc/self/fd")) == before and len(kept) == 50


def test_short_reads_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B197: the system may give less than was asked for; large tensors are read in pieces."""
    safe_save({"x": Tensor.arange(1000).realize()}, tmp_path / "x")

    class Reluctant:
        def __init__(self, file: object) -> None:
            self.file = file

        def readinto(self, target: memoryview) -> object:
            return self.file.readinto(target[:7])  # type: ignore[attr-defined]

    real = safetensors._read
    monkeypatch.setattr(
        safetensors,
        "_read",
        lambda file, count, path: real(Reluctant(file), count, path),  # type: ignore[arg-type]
    )
    monkeypatch.setattr(safetensors, "PIECE", 256)
    assert safe_load(tmp_path / "x")["x"].tolist() == list(range(1000))


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), replaced_file(path) as file:
        file.write(b"new")
        raise ZeroDivisionError
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["x"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    safe_save({"x": Tensor([1.0])}, tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").is_file()


# fmt: off
UNWRITABLE: tuple[tuple[str, dict[object, object], dict[object, object], str], ...] = (
    ("number",   {"x": 3},                       {},           "'x' is a int"),
    ("array",    {"x": np.zeros(3)},             {},           "'x' is a ndarray"),
    ("name",     {5: Tensor([1.0])},             {},           "cannot be named 5"),
    ("reserved", {"__metadata__": Tensor([1.])}, {},           "cannot be named '__metadata__'"),
    ("metadata", {"x": Tensor([1.0])},           {"epoch": 3}, "metadata must be text"),
    ("text",     {"\ud800": Tensor([1.0])},      {},           "no UTF-8 form"),
)
# fmt: on


@pytest.mark.parametrize(
    ("tensors", "metadata", "text"),
    [row[1:] for row in UNWRITABLE],
    ids=[row[0] for row in UNWRITABLE],
)
def test_what_cannot_be_written(
    tensors: dict[str, Tensor], metadata: dict[str, str], text: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=text):
        safe_save(tensors, tmp_path / "x", metadata)
    assert os.listdir(tmp_path) == []


DEEP = b"[" * 100_000
# fmt: off
HOSTILE: tuple[tuple[str, Callable[[Path], object], str], ...] = (
    ("nothing",       content(b""),                                                       "0 bytes are too few"),
    ("five bytes",    content(b"\1\0\0\0\0"),                                             "5 bytes are too few"),
    ("long header",   header({}, length=2**63),                                           "at most 100000000"),
    ("cut header",    header({}, length=1000),                                            "1000 bytes is cut off"),
    ("no json",       header(0, raw=b"{hello"),                                           "not JSON"),
    ("not utf8",      header(0, raw=b'{"\xff": 1}'),                                      "not JSON"),
    ("deep",          header(0, raw=DEEP),                                                "not JSON"),
    ("digits",        header(0, raw=b"9" * 10_000),                                       "not JSON"),
    ("list",          header([]),                                                         "is a list, not an object"),
    ("field",         header({"x": 3}),                                                   "needs a dtype"),
    ("extra field",   header({"x": {**field([1], 0, 4), "y": 1}}, b"1234"),               "and nothing else"),
    ("no offsets",    header({"x": {"dtype": "F32", "shape": []}}),                       "needs a dtype"),
    ("twice",         header(0, raw=b'{"x": 1, "x": 2}'),                                 "says 'x' twice"),
    ("twice inside",  header(0, raw=b'{"x": {"shape": 1, "shape": 2}}'),                  "says 'shape' twice"),
    ("metadata",      header({"__metadata__": {"x": 1}}),                                 "is not text by name"),
    ("metadata list", header({"__metadata__": []}),                                       "is not text by name"),
    ("dtype",         header({"x": field([1], 0, 4, "F31")}, b"1234"),                    "'F31'; known are BOOL"),
    ("dtype list",    header({"x": field([1], 0, 4, ["F32"])}, b"1234"),                  r"dtype \['F32'\]"),
    ("shape",         header({"x": field([-1], 0, 4)}, b"1234"),                          r"shape \[-1\]"),
    ("shape float",   header({"x": field([1.0], 0, 4)}, b"1234"),                         r"shape \[1.0\]"),
    ("shape bool",    header({"x": field([True], 0, 4)}, b"1234"),                        r"shape \[True\]"),
    ("shape text",    header({"x": field("1", 0, 4)}, b"1234"),                           "shape '1'"),
    ("many axes",     header({"x": field([1] * 65, 0, 4)}, b"1234"),                      "shape"),
    ("huge",          header({"x": field([2**62, 2**62], 0, 4)}, b"1234"),                "does not fit its place"),
    ("wraps to 0",    header({"x": field([2**32, 2**32], 0, 0)}),                         "does not fit its place"),
    ("short place",   header({"x": field([2], 0, 4)}, b"1234"),                           "does not fit its place"),
    ("backwards",     header({"x": field([1], 4, 0)}, b"1234"),                           "data_offsets"),
    ("negative",      header({"x": field([1], -4, 0)}, b"1234"),                          "data_offsets"),
    ("one offset",    header({"x": {**field([], 0, 0), "data_offsets": [4]}}),            "data_offsets"),
    ("far away",      header({"x": field([1], 2**40, 2**40 + 4)}, b"1234"),               "no tensor uses"),
    ("overlap",       header({"x": field([2], 0, 8), "y": field([2], 4, 12)}, b"1" * 12), "'y' begins at 4, inside"),
    ("same place",    header({"x": field([1], 0, 4), "y": field([1], 0, 4)}, b"1234"),    "inside of the tensor"),
    ("hole",          header({"x": field([1], 0, 4), "y": field([1], 8, 12)}, b"1" * 12), "bytes 4 to 8"),
    ("cut data",      header({"x": field([3], 0, 12)}, b"1" * 11),                        "11 bytes of data of 12"),
    ("more data",     header({"x": field([1], 0, 4)}, b"12345"),                          "1 bytes follow"),
    ("bad bool",      header({"x": field([3], 0, 3, "BOOL")}, b"\0\2\1"),                 "neither true nor false"),
    ("torch",         content(b"PK\3\4\0\0\10\10" + b"0" * 99),                           "a zip archive"),
    ("pickle",        content(b"\x80\2}q\0(X\1\0\0\0x"),                                  "the file is a pickle"),
    ("numpy",         content(b"\x93NUMPY\1\0v\0{}"),                                     "an array of NumPy"),
    ("missing",       lambda p: None,                                                     "No such file"),
    ("folder",        Path.mkdir,                                                         "Is a directory"),
)
# fmt: on


@pytest.mark.parametrize(
    ("make", "text"), [row[1:] for row in HOSTILE], ids=[row[0] for row in HOSTILE]
)
def test_what_is_refused(make: Callable[[Path], object], text: str, tmp_path: Path) -> None:
    make(tmp_path / "hostile.safetensors")
    with pytest.raises(DataError, match=text) as caught:
        safe_load(tmp_path / "hostile.safetensors")
    assert "hostile.safetensors" in str(caught.value)


def test_a_pickle_is_named_and_not_executed(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    path.write_bytes(b"\x80\2cos\nsystem\nX\4\0\0\0exit\x85R.")
    with pytest.raises(DataError, match="executes nothing"):
        safe_load(path)


@given(st.binary(max_size=60), st.integers(0, 200), st.data())
def test_damaged_files_are_refused_or_whole(noise: bytes, place: int, data: st.DataObject) -> None:
    """Any bytes in a valid file: an error of ours, or tensors of the announced sizes."""
    text = json.dumps({"x": field([2], 0, 8), "y": field([2, 2], 8, 24)}).encode()
    damaged = bytearray(len(text).to_bytes(8, "little") + text + b"1" * 24)
    damaged[place : place + data.draw(st.integers(0, len(noise)))] = noise
    with tempfile.NamedTemporaryFile() as file:
        file.write(damaged)
        file.flush()
        with contextlib.suppress(DataError):
            for tensor in safe_load(file.name).values():
                assert len(tensor.data() if tensor.numel() else b"") == tensor.nbytes()
