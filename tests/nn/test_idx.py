"""IDX files: read plain and packed, refused when damaged or mislabelled."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from loomgrad.errors import DataError
from loomgrad.nn.datasets import idx, mnist
from loomgrad.nn.idx import KINDS, MNIST_FILES

IMAGES = np.arange(3 * 2 * 2, dtype=np.uint8).reshape(3, 2, 2) * 20
LABELS = np.array([7, 0, 9], np.uint8)


def packed(array: NDArray[np.generic], kind: int = 8) -> bytes:
    """An array as an IDX file."""
    sizes = struct.pack(f">{array.ndim}I", *array.shape)
    return bytes([0, 0, kind, array.ndim]) + sizes + array.astype(KINDS[kind]).tobytes()


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def mnist_folder(folder: Path) -> Path:
    """A data set of three images for training and two for testing, half of its files packed by gzip."""
    for name, array in zip(MNIST_FILES, (IMAGES, LABELS, IMAGES[:2], LABELS[:2]), strict=True):
        if "labels" in name:
            write(folder / f"{name}.gz", gzip.compress(packed(array)))
        else:
            write(folder / name, packed(array))
    return folder


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(), (4,), (2, 3), (2, 0), (2, 1, 2, 2)], ids=str)
def test_every_kind_of_element_and_rank(kind: int, shape: tuple[int, ...], tmp_path: Path) -> None:
    array = (np.arange(np.prod(shape)) - 2).astype(KINDS[kind]).reshape(shape)
    found = idx(write(tmp_path / "x", packed(array, kind)))
    np.testing.assert_array_equal(found, array)
    assert found.dtype.isnative and found.dtype == array.dtype.newbyteorder("=")


def test_packed_files_are_known_by_what_they_hold(tmp_path: Path) -> None:
    path = write(tmp_path / "no.suffix", gzip.compress(packed(IMAGES)))
    np.testing.assert_array_equal(idx(path), IMAGES)


def test_mnist_is_four_files(tmp_path: Path) -> None:
    found = mnist(mnist_folder(tmp_path))
    train_x, train_y, test_x, test_y = found
    np.testing.assert_allclose(train_x, IMAGES / 255, 1e-6)
    np.testing.assert_array_equal(found.train_y, LABELS)
    assert train_x.dtype == test_x.dtype == np.float32 and train_y.dtype == np.int32
    assert test_x.shape == (2, 2, 2) and test_y.tolist() == [7, 0]


def test_dotted_names_do_as_well(tmp_path: Path) -> None:
    for name in MNIST_FILES:
        file = mnist_folder(tmp_path) / f"{name}{'.gz' if 'labels' in name else ''}"
        file.rename(tmp_path / file.name.replace("-idx", ".idx"))
    assert len(mnist(tmp_path).train_x) == 3


WHOLE = packed(IMAGES)
# fmt: off
DAMAGED = (
    ("empty",       b"",                                       "begins_with: nothing"),
    ("short",       b"\0\0\10",                                "begins_with: 00 00 08"),
    ("text",        b"<html>404</html>",                       "begins_with: 3c 68 74 6d"),
    ("kind",        b"\0\0\7\1\0\0\0\1a",                      "no IDX file"),
    ("axes",        b"\0\0\10\377" + b"\0" * 1020,             "no IDX file"),
    ("cut sizes",   WHOLE[:13],                                "within the sizes of its 3 axes"),
    ("cut data",    WHOLE[:-1],                                r"\(3, 2, 2\) elements take 12 bytes; .* cut off: 11"),
    ("more data",   WHOLE + b"a",                              "12 bytes; the file is longer"),
    ("huge",        b"\0\0\10\2" + b"\377" * 8 + b"abc",       r"no array has the shape"),
    ("huge empty",  b"\0\0\10\3" + b"\377" * 8 + b"\0" * 4,    r"no array has the shape"),
    ("large",       b"\0\0\10\2" + b"\0\377\377\377" * 2,      r"cut off: 0"),
    ("cut gzip",    gzip.compress(WHOLE)[:-9],                 "Compressed file ended"),
    ("bad gzip",    gzip.compress(WHOLE)[:-4] + b"abcd",       "cannot be read"),
    ("worse gzip",  gzip.compress(WHOLE)[:10] + b"\377" * 40,  "cannot be read"),
)
# fmt: on


@pytest.mark.parametrize(
    ("content", "text"), [row[1:] for row in DAMAGED], ids=[row[0] for row in DAMAGED]
)
def test_damaged_files_are_refused(content: bytes, text: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=text) as caught:
        idx(write(tmp_path / "damaged", content))
    assert "damaged" in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        idx(tmp_path / "absent")


def test_missing_files_are_all_named(tmp_path: Path) -> None:
    (mnist_folder(tmp_path) / MNIST_FILES[0]).unlink()
    with pytest.raises(DataError, match=f"{MNIST_FILES[0]} is not in the folder") as caught:
        mnist(tmp_path)
    assert all(name in str(caught.value) for name in MNIST_FILES)
    with pytest.raises(DataError, match="are not in the folder"):
        mnist(tmp_path / "nowhere")


def test_exchanged_files(tmp_path: Path) -> None:
    folder = mnist_folder(tmp_path)
    (folder / MNIST_FILES[0]).write_bytes(packed(LABELS))
    with pytest.raises(DataError, match="holds no images: 1 axes of uint8, not 3") as caught:
        mnist(folder)
    assert "exchanged" in str(caught.value)


def test_images_of_another_kind(tmp_path: Path) -> None:
    folder = mnist_folder(tmp_path)
    (folder / MNIST_FILES[2]).write_bytes(packed(IMAGES, 13))
    with pytest.raises(DataError, match="3 axes of float32, not 3 of uint8"):
        mnist(folder)


def test_another_number_of_labels(tmp_path: Path) -> None:
    folder = mnist_folder(tmp_path)
    (folder / f"{MNIST_FILES[1]}.gz").write_bytes(packed(LABELS[:2]))
    with pytest.raises(DataError, match="there are 3 images and 2 labels"):
        mnist(folder)
