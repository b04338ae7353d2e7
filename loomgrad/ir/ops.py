"""The table of operations: one row each, the only place where the facts of an operation stand.

Shape, dtype and bounds rules take the node; `evaluate` takes Python values.  Everything that needs to know an
operation reads its row: construction, folding, the evaluator, the verifier and the tests.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loomgrad.dtype import DType, dtypes, truncate
from loomgrad.ir import args, bounds, fold, shape, typing_rules
from loomgrad.ir.opcode import Op, Ops

if TYPE_CHECKING:
    from loomgrad.ir.uop import UOp


class Level(enum.Flag):
    """The grammars in which an operation is legal, in the order of lowering."""

    TENSOR = enum.auto()
    RANGED = enum.auto()
    KERNEL = enum.auto()
    LANES = enum.auto()
    PROGRAM = enum.auto()
    ALL = TENSOR | RANGED | KERNEL | LANES | PROGRAM


class Property(enum.Flag):
    """Laws and roles that passes ask for."""

    NONE = 0
    COMMUTES = enum.auto()
    ASSOCIATES = enum.auto()
    EFFECT = enum.auto()  # ordered by AFTER, never dropped or merged
    ENDS = enum.auto()  # sources after the first are ranges that close here


@dataclass(frozen=True, slots=True)
class Row:
    """The facts of one operation.  `arg` is the type of a node's arg."""

    op: Op
    meaning: str
    sources: str
    arg: type | None
    shape: Callable[[UOp], shape.Shape | None]
    dtype: Callable[[UOp], DType]
    evaluate: Callable[..., Any] | None
    bounds: Callable[[UOp], bounds.Interval]
    properties: Property
    levels: Level


_T, _R, _K, _L, _P = Level.TENSOR, Level.RANGED, Level.KERNEL, Level.LANES, Level.PROGRAM
_ALL, _GRAPH, _INSIDE = Level.ALL, _T | _R, _R | _K | _L | _P
_NONE, _EFFECT, _ENDS = Property.NONE, Property.EFFECT, Property.ENDS
_BOTH, _COMMUTES = Property.COMMUTES | Property.ASSOCIATES, Property.COMMUTES
_EACH, _FIRST, _NO = shape.elementwise_shape, shape.first_shape, shape.no_shape
_SAME, _PROMOTE, _VOID = (
    typing_rules.first_dtype,
    typing_rules.promoted_dtype,
    typing_rules.void_dtype,
)
_FLOAT, _INT, _COMPARE = (
    typing_rules.float_dtype,
    typing_rules.int_dtype,
    typing_rules.comparison_dtype,
)
_TYPED = typing_rules.arg_dtype
_WHOLE, _AS = bounds.whole_bounds, bounds.first_bounds
_ARITH, _DIV = bounds.arithmetic_bounds, bounds.division_bounds
_CMP, _LOGIC, _SHIFT = bounds.comparison_bounds, bounds.logic_bounds, bounds.shift_bounds


# fmt: off
# ruff: noqa: E501
TABLE = (
    #   op             meaning                                          sources               arg             shape                 dtype                        evaluate                    bounds                properties        levels
    Row(Ops.CONST,     "a Python bool, int or float, or Invalid",       "",                   object,         shape.scalar_shape,   typing_rules.const_dtype,    None,                       bounds.const_bounds,  _NONE,            _ALL),
    Row(Ops.BUFFER,    "storage",                                       "",                   args.ParamArg,  shape.storage_shape,  typing_rules.storage_dtype,  None,                       _WHOLE,               _NONE,            _ALL),
    Row(Ops.PARAM,     "a formal parameter of a CALL's body",           "",                   args.ParamArg,  shape.storage_shape,  typing_rules.storage_dtype,  None,                       _WHOLE,               _NONE,            _ALL),
    Row(Ops.STACK,     "sources as a new leading axis",                 "x...",               None,           shape.stack_shape,    typing_rules.stack_dtype,    None,                       bounds.hull_bounds,   _NONE,            _ALL),
    Row(Ops.RANGE,     "a loop over 0 .. extent-1",                     "extent",             args.RangeArg,  shape.scalar_shape,   _SAME,                       None,                       bounds.range_bounds,  _NONE,            _INSIDE),

    Row(Ops.RESHAPE,   "the same elements in row-major order",          "x sizes",            None,           shape.reshape_shape,  _SAME,                       None,                       _AS,                  _NONE,            _T | _L | _P),
    Row(Ops.PERMUTE,   "axis i is the source's axis arg[i]",            "x",                  tuple,          shape.permute_shape,  _SAME,                       None,                       _AS,                  _NONE,            _T | _L | _P),
    Row(Ops.FLIP,      "the axes in arg reversed",                      "x",                  tuple,          shape.flip_shape,     _SAME,                       None,                       _AS,                  _NONE,            _T),
    Row(Ops.PAD,       "x inside of zeros",                             "x offsets sizes",    None,           shape.pad_shape,      _SAME,                       None,                       bounds.pad_bounds,    _NONE,            _T),
    Row(Ops.SHRINK,    "a box of x",                                    "x offsets sizes",    None,           shape.shrink_shape,   _SAME,                       None,                       _AS,                  _NONE,            _T),
    Row(Ops.EXPAND,    "x repeated along new leading axes",             "x sizes",            None,           shape.expand_shape,   _SAME,                       None,                       _AS,                  _NONE,            _T | _L | _P),

    Row(Ops.CAST,      "x as another dtype, by value",                  "x",                  DType,          _FIRST,               _TYPED,                      None,                       bounds.cast_bounds,   _NONE,            _ALL),
    Row(Ops.BITCAST,   "the bits of x as another dtype",                "x",                  DType,          shape.bitcast_shape,  _TYPED,                      None,                       _WHOLE,               _NONE,            _ALL),
    Row(Ops.EXP2,      "2**x",                                          "x",                  None,           _FIRST,               _FLOAT,                      fold.exp2,                  _WHOLE,               _NONE,            _ALL),
    Row(Ops.LOG2,      "logarithm to the base 2",                       "x",                  None,           _FIRST,               _FLOAT,                      fold.log2,                  _WHOLE,               _NONE,            _ALL),
    Row(Ops.EXP,       "e**x",                                          "x",                  None,           _FIRST,               _FLOAT,                      fold.exp,                   _WHOLE,               _NONE,            _ALL),
    Row(Ops.LOG,       "natural logarithm",                             "x",                  None,           _FIRST,               _FLOAT,                      fold.log,                   _WHOLE,               _NONE,            _ALL),
    Row(Ops.SIN,       "sine of x in radians",                          "x",                  None,           _FIRST,               _FLOAT,                      fold.sine,                  _WHOLE,               _NONE,            _ALL),
    Row(Ops.COS,       "cosine of x in radians",                        "x",                  None,           _FIRST,               _FLOAT,                      fold.cosine,                _WHOLE,               _NONE,            _ALL),
    Row(Ops.TANH,      "hyperbolic tangent",                            "x",                  None,           _FIRST,               _FLOAT,                      fold.hyperbolic_tangent,    _WHOLE,               _NONE,            _ALL),
    Row(Ops.SQRT,      "square root",                                   "x",                  None,           _FIRST,               _FLOAT,                      fold.square_root,           _WHOLE,               _NONE,            _ALL),
    Row(Ops.RECIPROCAL,"1 / x",                                         "x",                  None,           _FIRST,               _FLOAT,                      fold.reciprocal,            _WHOLE,               _NONE,            _ALL),
    Row(Ops.NEG,       "-x, wraps for ints",                            "x",                  None,           _FIRST,               _SAME,                       operator.neg,               _ARITH,               _NONE,            _ALL),
    Row(Ops.TRUNC,     "x without its fraction",                        "x",                  None,           _FIRST,               _SAME,                       fold.truncate_toward_zero,  bounds.trunc_bounds,  _NONE,            _ALL),

    Row(Ops.ADD,       "a + b, wraps for ints; or for bools",           "a b",                None,           _EACH,                _PROMOTE,                    fold.add,                   _ARITH,               _BOTH,            _ALL),
    Row(Ops.SUB,       "a - b, wraps for ints",                         "a b",                None,           _EACH,                _PROMOTE,                    operator.sub,               _ARITH,               _NONE,            _ALL),
    Row(Ops.MUL,       "a * b, wraps for ints; and for bools",          "a b",                None,           _EACH,                _PROMOTE,                    fold.multiply,              _ARITH,               _BOTH,            _ALL),
    Row(Ops.FDIV,      "a / b of floats",                               "a b",                None,           _EACH,                _FLOAT,                      fold.float_divide,          _WHOLE,               _NONE,            _ALL),
    Row(Ops.CDIV,      "a / b toward zero, 0 for b = 0",                "a b",                None,           _EACH,                _INT,                        fold.truncated_divide,      _DIV,                 _NONE,            _ALL),
    Row(Ops.CMOD,      "a - CDIV(a, b) * b, 0 for b = 0",               "a b",                None,           _EACH,                _INT,                        fold.truncated_modulo,      _DIV,                 _NONE,            _ALL),
    Row(Ops.FLOORDIV,  "a / b downward, 0 for b = 0",                   "a b",                None,           _EACH,                _INT,                        fold.floor_divide,          _DIV,                 _NONE,            _ALL),
    Row(Ops.FLOORMOD,  "a - FLOORDIV(a, b) * b, 0 for b = 0",           "a b",                None,           _EACH,                _INT,                        fold.floor_modulo,          _DIV,                 _NONE,            _ALL),
    Row(Ops.MAX,       "the larger; NaN if either is",                  "a b",                None,           _EACH,                _PROMOTE,                    fold.maximum,               _ARITH,               _BOTH,            _ALL),
    Row(Ops.POW,       "a**b",                                          "a b",                None,           _EACH,                _PROMOTE,                    fold.power,                 _WHOLE,               _NONE,            _ALL),
    Row(Ops.CMPLT,     "a < b, false if either is NaN",                 "a b",                None,           _EACH,                _COMPARE,                    operator.lt,                _CMP,                 _NONE,            _ALL),
    Row(Ops.CMPNE,     "a != b, true if either is NaN",                 "a b",                None,           _EACH,                _COMPARE,                    operator.ne,                _CMP,                 _COMMUTES,        _ALL),
    Row(Ops.CMPEQ,     "a == b, false if either is NaN",                "a b",                None,           _EACH,                _COMPARE,                    operator.eq,                _CMP,                 _COMMUTES,        _ALL),
    Row(Ops.AND,       "bitwise and",                                   "a b",                None,           _EACH,                _INT,                        operator.and_,              _LOGIC,               _BOTH,            _ALL),
    Row(Ops.OR,        "bitwise or",                                    "a b",                None,           _EACH,                _INT,                        operator.or_,               _LOGIC,               _BOTH,            _ALL),
    Row(Ops.XOR,       "bitwise exclusive or",                          "a b",                None,           _EACH,                _INT,                        operator.xor,               _LOGIC,               _BOTH,            _ALL),
    Row(Ops.SHL,       "a shifted left by b; 0 for b beyond the width", "a b",                None,           _EACH,                typing_rules.shift_dtype,    fold.shift_left,            _SHIFT,               _NONE,            _ALL),
    Row(Ops.SHR,       "a shifted right, with sign; 0 beyond the width","a b",                None,           _EACH,                typing_rules.shift_dtype,    fold.shift_right,           _SHIFT,               _NONE,            _ALL),
    Row(Ops.THREEFRY,  "Threefry-2x32 of counter a under key b",        "a b",                None,           _EACH,                typing_rules.threefry_dtype, fold.threefry,              _WHOLE,               _NONE,            _ALL),

    Row(Ops.WHERE,     "b if c else d",                                 "c b d",              None,           _EACH,                typing_rules.where_dtype,    fold.select,                bounds.where_bounds,  _NONE,            _ALL),
    Row(Ops.MULACC,    "a * b + c with one rounding",                   "a b c",              None,           _EACH,                _PROMOTE,                    fold.multiply_add,          _WHOLE,               _NONE,            _ALL),

    Row(Ops.REDUCE,    "the first arg.count axes and the ranges folded","x ranges...",        args.ReduceArg, shape.reduce_shape,   _SAME,                       None,                       _WHOLE,               _ENDS,            _T | _R | _K | _L | _P),
    Row(Ops.INDEX,     "elements of storage or of a value",             "x indices...",       None,           shape.index_shape,    _SAME,                       None,                       _WHOLE,               _NONE,            _ALL),
    Row(Ops.LOAD,      "reads an INDEX, or gives the alternative",      "x alternative? gate?", None,         _FIRST,               _SAME,                       None,                       _WHOLE,               _NONE,            _L | _P),
    Row(Ops.STORE,     "writes a value at an INDEX",                    "x value gate?",      None,           _NO,                  _VOID,                       None,                       _WHOLE,               _EFFECT,          _INSIDE),
    Row(Ops.AFTER,     "the first source, once the effects happened",   "x effects...",       None,           _FIRST,               _SAME,                       None,                       _AS,                  _NONE,            _INSIDE),
    Row(Ops.END,       "an effect, with its ranges closed",             "effect ranges...",   None,           _NO,                  _VOID,                       None,                       _WHOLE,               _EFFECT | _ENDS,  _INSIDE),
    Row(Ops.GROUP,     "several effects as one",                        "effects...",         None,           _NO,                  _VOID,                       None,                       _WHOLE,               _EFFECT,          _INSIDE),
    Row(Ops.SINK,      "the root of a graph",                           "x...",               args.KernelInfo,_NO,                  _VOID,                       None,                       _WHOLE,               _EFFECT,          _ALL),
    Row(Ops.STAGE,     "a value over ranges that may be stored",        "x ranges...",        args.StageArg,  shape.stage_shape,    _SAME,                       None,                       _AS,                  _ENDS,            _R | _K),

    Row(Ops.CONTIGUOUS,"x, stored here",                                "x",                  None,           _FIRST,               _SAME,                       None,                       _AS,                  _NONE,            _T),
    Row(Ops.DETACH,    "x, without gradient",                           "x",                  None,           _FIRST,               _SAME,                       None,                       _AS,                  _NONE,            _T),
    Row(Ops.NOOP,      "x, as a value of its own (by tag)",             "x",                  None,           _FIRST,               _SAME,                       None,                       _AS,                  _NONE,            _T),

    Row(Ops.CALL,      "runs a body on arguments",                      "body args...",       args.CallInfo,  _NO,                  _VOID,                       None,                       _WHOLE,               _EFFECT,          _K | _L | _P),
    Row(Ops.LINEAR,    "nodes in the order in which they run",          "x...",               None,           _NO,                  _VOID,                       None,                       _WHOLE,               _EFFECT,          _K | _P),
)
# fmt: on

ROWS: dict[Op, Row] = {row.op: row for row in TABLE}
SHAPE_RULES = tuple(ROWS[op].shape for op in Ops)
DTYPE_RULES = tuple(ROWS[op].dtype for op in Ops)
BOUNDS_RULES = tuple(ROWS[op].bounds for op in Ops)


def identity_element(op: Op, dtype: DType) -> int | float | bool:
    """The value that changes nothing under a reduction: ADD 0, MUL 1, MAX the least value."""
    if op is Ops.MAX:
        return dtypes.min(dtype)
    value = {Ops.ADD: 0, Ops.MUL: 1}[op]
    return truncate(dtype, value)
