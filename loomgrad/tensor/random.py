"""Random numbers: counter-based, the same on every device and machine.

**The stream.**  A seed and the index of a device make a key: `threefry(device index, seed)`.  Element i of a draw
is the 64-bit block `threefry(c + i, key)`, Threefry-2x32 with 20 rounds, where c is the counter of the device
when the Tensor was made, not when it is computed.  A draw of n elements advances the counter by n (`randn` in
float64 by 2n), so draws made in one order may be computed in any.  Of a block, with its low and high words:

    rand      float32: the upper 24 bits of the low word / 2**24; float16: its upper 11 / 2**11;
              bfloat16: its upper 8 / 2**8; float64: the upper 53 bits of the block / 2**53
    randint   low + block modulo (high - low)
    randn     sqrt(-2 log(1 - u)) * sin(2 pi v), u of the low word, v of the high word, both as float32 above;
              in float64 u and v are draws of their own, v after all of u

Uniform and whole numbers are equal to the last bit everywhere; normals within 4 units in the last place.
"""

from __future__ import annotations

import math
import os
import threading
from typing import TYPE_CHECKING, Self

from loomgrad.dtype import DType, dtype_argument, dtypes, holds
from loomgrad.engine.recording import note_fresh
from loomgrad.errors import DTypeError
from loomgrad.ir.counting import counting
from loomgrad.ir.fold import threefry
from loomgrad.ir.opcode import Ops
from loomgrad.ir.shape import Shape, size_of
from loomgrad.ir.uop import UOp
from loomgrad.memory import Buffer, Device
from loomgrad.tensor.creation import Creation, Sizes, checked_sizes, storage

if TYPE_CHECKING:
    from loomgrad.dtype.argument import DTypeLike

SIGNIFICANT_BITS = {dtypes.float16: 11, dtypes.bfloat16: 8, dtypes.float32: 24, dtypes.float64: 53}


class Stream:
    """The state of one device's generator: a key, and how many blocks have been drawn."""

    def __init__(self, seed: int, device: str) -> None:
        index = int(device.partition(":")[2] or 0)
        self.device = device
        self.counter = 0
        self.key = threefry(index, seed % 2**64)
        self._key_node: UOp | None = None

    @property
    def key_node(self) -> UOp:
        """The key in the graph: storage, so that programs do not depend on the seed."""
        if self._key_node is None:
            self._key_node = _one_word(self.key, self.device)
        return self._key_node


class Streams:
    """The streams of all devices."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.seed(int.from_bytes(os.urandom(8), "little"))

    def seed(self, seed: int) -> None:
        """Start all streams anew."""
        self._seed = seed
        self._of_device: dict[str, Stream] = {}

    def of(self, device: str) -> Stream:
        """The stream of a device."""
        if device not in self._of_device:
            self._of_device[device] = Stream(self._seed, device)
        return self._of_device[device]

    def take(self, device: str, count: int) -> tuple[UOp, int]:
        """The key and the first of `count` blocks, which now are taken."""
        with self._lock:
            stream = self.of(device)
            first = stream.counter
            stream.counter = (first + count) % 2**64
            return stream.key_node, first


streams = Streams()


def _word_buffer(value: int, device: str) -> Buffer:
    """Memory that holds one 64-bit word."""
    return Buffer(device, 1, dtypes.uint64).copyin(value.to_bytes(8, "little"))


def _one_word(value: int, device: str) -> UOp:
    return storage((1,), dtypes.uint64, device, value.to_bytes(8, "little"))


class Random(Creation):
    """Draws."""

    __slots__ = ()

    @staticmethod
    def manual_seed(seed: int = 0) -> None:
        """Start the streams of all devices anew from a seed."""
        streams.seed(seed)

    @classmethod
    def _blocks(cls, shape: Shape, device: str) -> UOp:
        """A draw: one 64-bit block per element, uint64."""
        count = size_of(shape)
        key, first = streams.take(device, count)
        if count == 0:
            return UOp.const(0, dtypes.uint64).expand(shape)
        offset = _one_word(first, device)
        note_fresh(offset.base, lambda: _word_buffer(streams.take(device, count)[1], device))
        note_fresh(key.base, lambda: _word_buffer(streams.of(device).key, device))
        numbers = counting(count, dtypes.int64).cast(dtypes.uint64) + offset
        return numbers.alu(Ops.THREEFRY, key).reshape(shape)

    @classmethod
    def rand(
        cls,
        *shape: Sizes,
        dtype: DTypeLike = dtypes.default_float,
        requires_grad: bool = False,
        device: str | None = None,
    ) -> Self:
        """Uniform numbers, at least 0 and below 1."""
        place = Device.canonicalize(device)
        sizes, dtype = checked_sizes(shape), dtype_argument(dtype)
        if dtype not in SIGNIFICANT_BITS:
            raise DTypeError(
                f"uniform numbers of dtype {dtype.name} are not known",
                fix="draw floats and cast, or use Tensor.randint",
            )
        blocks = cls._blocks(sizes, place)
        made = cls._of(_fraction(blocks, dtype), place)
        made.requires_grad = requires_grad
        return made

    @classmethod
    def uniform(
        cls,
        *shape: Sizes,
        low: float = 0.0,
        high: float = 1.0,
        dtype: DTypeLike = dtypes.default_float,
        requires_grad: bool = False,
        device: str | None = None,
    ) -> Self:
        """Uniform numbers, at least `low` and below `high` (or equal to it, by rounding)."""
        made = cls.rand(*shape, dtype=dtype, device=device) * (high - low) + low
        made.requires_grad = requires_grad
        return made

    @classmethod
    def randint(
        cls,
        *shape: Sizes,
        low: int = 0,
        high: int = 10,
        dtype: DTypeLike = dtypes.default_int,
        device: str | None = None,
    ) -> Self:
        """Whole numbers, at least `low` and below `high`, all equally likely to within 2**-32 for spans of
        up to 2**32."""
        dtype = dtype_argument(dtype)
        if not dtype.is_int or not low < high or not (holds(dtype, low) and holds(dtype, high - 1)):
            raise DTypeError(
                f"no whole numbers from {low} to below {high} in {dtype.name}",
                fix="low must be below high and both must fit an integer dtype",
            )
        place = Device.canonicalize(device)
        blocks = cls._blocks(checked_sizes(shape), place)
        span = high - low
        steps = blocks if span == 2**64 else blocks % UOp.const(span, dtypes.uint64)
        return cls._of((steps + UOp.const(low % 2**64, dtypes.uint64)).cast(dtype), place)

    @classmethod
    def randn(
        cls,
        *shape: Sizes,
        dtype: DTypeLike = dtypes.default_float,
        requires_grad: bool = False,
        device: str | None = None,
    ) -> Self:
        """Normal numbers of mean 0 and variance 1, by Box and Muller's transform."""
        place = Device.canonicalize(device)
        sizes, dtype = checked_sizes(shape), dtype_argument(dtype)
        if dtype is dtypes.float64:
            u = _fraction(cls._blocks(sizes, place), dtype)
            v = _fraction(cls._blocks(sizes, place), dtype)
        else:
            blocks = cls._blocks(sizes, place)
            u = _fraction(blocks, dtypes.float32)
            v = _fraction(blocks >> 32, dtypes.float32)
        radius = ((1.0 - u).log() * -2.0).sqrt()
        made = cls._of((radius * (v * (2 * math.pi)).sin()).cast(dtype), place)
        made.requires_grad = requires_grad
        return made

    @classmethod
    def normal(
        cls,
        *shape: Sizes,
        mean: float = 0.0,
        std: float = 1.0,
        dtype: DTypeLike = dtypes.default_float,
        requires_grad: bool = False,
        device: str | None = None,
    ) -> Self:
        """Normal numbers of a mean and a standard deviation."""
        made = cls.randn(*shape, dtype=dtype, device=device) * std + mean
        made.requires_grad = requires_grad
        return made

    def rand_like(self) -> Self:
        """Uniform numbers in this tensor's shape and dtype."""
        return type(self).rand(self.shape, dtype=self.dtype, device=self.device)

    def randn_like(self) -> Self:
        """Normal numbers in this tensor's shape and dtype."""
        return type(self).randn(self.shape, dtype=self.dtype, device=self.device)


def _fraction(blocks: UOp, dtype: DType) -> UOp:
    """Uniform numbers of the bits of blocks: whole numbers below a power of two, divided by it."""
    bits = SIGNIFICANT_BITS[dtype]
    if dtype is dtypes.float64:
        whole = blocks >> (64 - bits)
    else:
        whole = blocks.cast(dtypes.uint32) >> (32 - bits)
    wide = dtypes.float64 if dtype is dtypes.float64 else dtypes.float32  # exact also for less
    return (whole.cast(wide) * 2.0**-bits).cast(dtype)
