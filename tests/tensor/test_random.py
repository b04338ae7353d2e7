"""Random numbers: the documented streams, to the bit; moments; independence."""

from __future__ import annotations

import math

import numpy as np
import pytest

from loomgrad import Tensor, dtypes
from loomgrad.dtype import DType
from loomgrad.engine.schedule import schedules
from loomgrad.errors import DTypeError
from loomgrad.ir.fold import threefry
from loomgrad.ir.opcode import Ops
from loomgrad.tensor.random import streams
from tests.tensor.checks import dtype_is

# Counter, key and result of Threefry-2x32 with 20 rounds, as published with the algorithm.  The first word is
# the low one.
KNOWN_ANSWERS = (
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
)


def word(pair: tuple[int, int]) -> int:
    return pair[1] << 32 | pair[0]


def blocks(seed: int, first: int, count: int, device: int = 0) -> list[int]:
    """What the documentation says a draw is made of."""
    key = threefry(device, seed)
    return [threefry(first + i, key) for i in range(count)]


def test_threefry_gives_the_published_answers() -> None:
    counters, keys, wanted = zip(*(map(word, row) for row in KNOWN_ANSWERS), strict=True)
    assert [threefry(c, k) for c, k in zip(counters, keys, strict=True)] == list(wanted)
    counter, key = (Tensor(list(words), dtype=dtypes.uint64) for words in (counters, keys))
    assert counter._make(Ops.THREEFRY, (key,)).tolist() == list(wanted)


def test_streams_are_as_documented() -> None:
    Tensor.manual_seed(1234)
    drawn = blocks(1234, 0, 24)
    low = [block & 0xFFFFFFFF for block in drawn]
    assert Tensor.rand(6).tolist() == [w / 2**24 for w in (x >> 8 for x in low[:6])]
    assert Tensor.rand(2, dtype=dtypes.float16).tolist() == [(x >> 21) / 2**11 for x in low[6:8]]
    assert Tensor.rand(2, dtype=dtypes.float64).tolist() == [(b >> 11) / 2**53 for b in drawn[8:10]]
    assert Tensor.randint(4, low=-5, high=12).tolist() == [b % 17 - 5 for b in drawn[10:14]]
    u = np.array([(x >> 8) / 2**24 for x in low[14:18]])
    v = np.array([(b >> 32 >> 8) / 2**24 for b in drawn[14:18]])
    normal = np.sqrt(-2 * np.log(1 - u)) * np.sin(2 * math.pi * v)
    np.testing.assert_allclose(Tensor.randn(4).numpy(), normal, 2e-6, 1e-7)
    u, v = (np.array([(b >> 11) / 2**53 for b in part]) for part in (drawn[18:20], drawn[20:22]))
    normal = np.sqrt(-2 * np.log(1 - u)) * np.sin(2 * math.pi * v)
    np.testing.assert_allclose(Tensor.randn(2, dtype=dtypes.float64).numpy(), normal, 1e-13)
    assert Tensor.rand(1).tolist() == [(low[22] >> 8) / 2**24]


def test_a_device_has_a_stream_of_its_own() -> None:
    Tensor.manual_seed(5)
    wanted = [(b & 0xFFFFFFFF) >> 8 for b in blocks(5, 0, 3, device=1)]
    assert Tensor.rand(3, device="CPU:1").tolist() == [x / 2**24 for x in wanted]


def test_a_draw_belongs_to_the_moment_it_was_made() -> None:
    Tensor.manual_seed(7)
    wanted = [Tensor.rand(4).tolist() for _ in range(3)]
    Tensor.manual_seed(7)
    draws = [Tensor.rand(4) for _ in range(3)]
    assert [draw.tolist() for draw in reversed(draws)] == wanted[::-1]
    assert draws[0].tolist() != draws[1].tolist()


def test_the_counter_has_64_bits() -> None:
    Tensor.manual_seed(0)
    streams.take("CPU", 2**32 - 2)
    wanted = [((b & 0xFFFFFFFF) >> 8) / 2**24 for b in blocks(0, 2**32 - 2, 4)]
    assert Tensor.rand(4).tolist() == wanted
    assert streams.of("CPU").counter == 2**32 + 2
    assert Tensor.rand(2**17, 2**17).shape == (2**17, 2**17)


def test_a_drawn_program_does_not_depend_on_counter_or_seed() -> None:
    Tensor.rand(9).realize()
    known = len(schedules)
    Tensor.manual_seed(3)
    Tensor.rand(9).realize()
    Tensor.rand(9).realize()
    assert len(schedules) == known


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
def test_moments(dtype: DType) -> None:
    Tensor.manual_seed(11)
    uniform = Tensor.rand(100_000, dtype=dtype).numpy()
    dtype_is(Tensor.rand(2, dtype=dtype), dtype)
    assert 0 <= uniform.min() < 1e-3 and 1 - 1e-3 < uniform.max() < 1
    np.testing.assert_allclose([uniform.mean(), uniform.var()], [1 / 2, 1 / 12], 0.01)
    normal = Tensor.randn(100_000, dtype=dtype).numpy()
    dtype_is(Tensor.randn(2, dtype=dtype), dtype)
    np.testing.assert_allclose([normal.mean(), normal.std()], [0, 1], 0.02, 0.01)
    np.testing.assert_allclose((np.abs(normal) < 1).mean(), 0.6827, 0.01)
    assert np.isfinite(normal).all()
    assert abs(np.corrcoef(normal[1:], normal[:-1])[0, 1]) < 0.02


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16])
def test_short_floats_stay_below_1_and_finite(dtype: DType) -> None:
    uniform = Tensor.rand(2, 128, 128, dtype=dtype)
    assert uniform.dtype is dtype
    values = uniform.float().numpy()
    assert values.min() >= 0 and values.max() < 1 and (values == 0).mean() < 0.01
    assert np.isfinite(Tensor.randn(128, 128, dtype=dtype).float().numpy()).all()


def test_ranges() -> None:
    x = Tensor.uniform(1000, low=-2.0, high=3.0).numpy()
    assert -2 <= x.min() < -1.9 and 2.9 < x.max() <= 3
    n = Tensor.normal(20_000, mean=3.0, std=0.5).numpy()
    np.testing.assert_allclose([n.mean(), n.std()], [3, 0.5], 0.03)
    whole = Tensor.randint(3000, low=-1, high=2)
    dtype_is(whole, dtypes.int32)
    counts = np.unique(whole.numpy(), return_counts=True)
    assert counts[0].tolist() == [-1, 0, 1] and counts[1].min() > 900
    assert Tensor.randint(5, low=250, high=256, dtype=dtypes.uint8).dtype is dtypes.uint8
    like = Tensor.zeros(2, 3, dtype=dtypes.float64)
    assert like.rand_like().shape == like.randn_like().shape == (2, 3)
    assert like.rand_like().dtype is dtypes.float64
    assert Tensor.rand(0, 3).numpy().shape == (0, 3)
    assert Tensor.rand(2, requires_grad=True).requires_grad


def test_mistakes() -> None:
    with pytest.raises(DTypeError, match="uniform numbers of dtype int32"):
        Tensor.rand(2, dtype=dtypes.int32)
    with pytest.raises(DTypeError, match="no whole numbers from 5 to below 5"):
        Tensor.randint(2, low=5, high=5)
    with pytest.raises(DTypeError, match="from 0 to below 300 in int8"):
        Tensor.randint(2, high=300, dtype=dtypes.int8)
