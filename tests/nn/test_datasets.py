"""The digits: complete, split as documented, and refused when damaged."""

import gzip
from pathlib import Path

import numpy
import pytest

from loomgrad.errors import DataError
from loomgrad.nn.datasets import DIGITS_FILE, DIGITS_SHA256, digits, shuffled

TRAIN_START = [6, 3, 8, 3, 5, 2, 0, 4, 7, 5, 5, 0]
TEST_START = [4, 7, 7, 9, 5, 3, 3, 3, 1, 4, 2, 7]


def test_shapes_and_values() -> None:
    train_x, train_y, test_x, test_y = digits()
    assert (train_x.shape, train_y.shape) == ((1348, 64), (1348,))
    assert (test_x.shape, test_y.shape) == ((449, 64), (449,))
    assert train_x.dtype == test_x.dtype == numpy.float32
    assert train_y.dtype == test_y.dtype == numpy.int32
    assert train_x.min() == 0.0 and train_x.max() == 1.0
    assert numpy.array_equal(train_x * 16, numpy.round(train_x * 16))


def test_every_digit_is_in_both_parts_about_equally_often() -> None:
    _, train_y, _, test_y = digits()
    train_counts, test_counts = numpy.bincount(train_y), numpy.bincount(test_y)
    assert len(train_counts) == len(test_counts) == 10
    assert train_counts.min() > 115 and test_counts.min() > 30
    assert set(train_counts + test_counts) <= set(range(174, 184))


def test_the_split_never_changes() -> None:
    _, train_y, _, test_y = digits()
    assert train_y[:12].tolist() == TRAIN_START
    assert test_y[:12].tolist() == TEST_START


def test_no_image_is_in_both_parts() -> None:
    train_x, _, test_x, _ = digits()
    train = {image.tobytes() for image in train_x}
    assert not any(image.tobytes() in train for image in test_x)


def test_ink_looks_like_the_digit() -> None:
    """A nearest mean classifier reads most of them, so images and labels belong together."""
    train_x, train_y, test_x, test_y = digits()
    means = numpy.stack([train_x[train_y == digit].mean(axis=0) for digit in range(10)])
    distances = ((test_x[:, None, :] - means[None, :, :]) ** 2).sum(axis=2)
    assert (distances.argmin(axis=1) == test_y).mean() > 0.85


@pytest.mark.parametrize("count", [0, 1, 2, 10, 1797])
def test_shuffled_is_a_permutation(count: int) -> None:
    assert sorted(shuffled(count, seed=7)) == list(range(count))


def test_shuffled_depends_on_the_seed() -> None:
    assert shuffled(100, seed=1) != shuffled(100, seed=2)
    assert shuffled(100, seed=1) == shuffled(100, seed=1)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        digits(tmp_path / "absent.gz")
    text = str(caught.value)
    assert "the digits cannot be read" in text
    assert "absent.gz" in text and "No such file" in text
    assert "install loomgrad again" in text


def test_truncated_file(tmp_path: Path) -> None:
    damaged = tmp_path / "digits.bin.gz"
    damaged.write_bytes(DIGITS_FILE.read_bytes()[:1000])
    with pytest.raises(DataError, match="the digits cannot be read"):
        digits(damaged)


def test_file_that_is_not_compressed(tmp_path: Path) -> None:
    damaged = tmp_path / "digits.bin.gz"
    damaged.write_bytes(b"hello")
    with pytest.raises(DataError, match="Not a gzipped file"):
        digits(damaged)


def test_changed_pixel(tmp_path: Path) -> None:
    content = bytearray(gzip.decompress(DIGITS_FILE.read_bytes()))
    content[5] ^= 1
    damaged = tmp_path / "digits.bin.gz"
    damaged.write_bytes(gzip.compress(bytes(content)))
    with pytest.raises(DataError, match="not the file that was shipped"):
        digits(damaged)


def test_provenance_names_the_licence_and_the_hash() -> None:
    text = (DIGITS_FILE.parent / "DIGITS.md").read_text()
    assert "CC BY 4.0" in text
    assert DIGITS_SHA256 in text
