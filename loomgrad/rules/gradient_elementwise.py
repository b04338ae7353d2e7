"""Gradients of elementwise operations: what each source gets of a node's cotangent, `ctx`."""

from __future__ import annotations

import math

from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp
from loomgrad.rules.cotangent import Cotangent, Gradients


def same(ctx: Cotangent, node: UOp) -> Gradients:
    """Sums and marks pass the cotangent on."""
    return (ctx,) * len(node.src)


def nothing(ctx: Cotangent, node: UOp) -> Gradients:
    """Flat everywhere."""
    return (None,) * len(node.src)


def subtract(ctx: Cotangent, node: UOp) -> Gradients:
    """a - b."""
    return ctx, ctx.scaled(lambda g: -g)


def negate(ctx: Cotangent, node: UOp) -> Gradients:
    """-x."""
    return (ctx.scaled(lambda g: -g),)


def multiply(ctx: Cotangent, node: UOp) -> Gradients:
    """a * b."""
    a, b = node.src
    return ctx.scaled(lambda g: g * b), ctx.scaled(lambda g: g * a)


def multiply_add(ctx: Cotangent, node: UOp) -> Gradients:
    """a * b + c."""
    a, b, _ = node.src
    return ctx.scaled(lambda g: g * b), ctx.scaled(lambda g: g * a), ctx


def divide(ctx: Cotangent, node: UOp) -> Gradients:
    """a / b: g / b, and -(g / b) * (a / b)."""
    _, b = node.src
    first = ctx.scaled(lambda g: g / b, pole=True)
    return first, first.scaled(lambda g: -(g * node), pole=True)


def maximum(ctx: Cotangent, node: UOp) -> Gradients:
    """max(a, b) selects; two values that tie share, a constant takes the tie."""
    a, b = node.src
    if _is_constant(b):
        return ctx.selected(b < a), None
    if _is_constant(a):
        return None, ctx.selected(a < b)
    half = ctx.scaled(lambda g: a.eq(b).where(g * 0.5, g))
    return half.selected(a >= b), half.selected(b >= a)


def _is_constant(node: UOp) -> bool:
    """Whether a value is a number that was written, also with its sign changed as in `minimum`."""
    while node.op is Ops.NEG or node.op is Ops.CAST:
        node = node.src[0]
    return node.op is Ops.CONST


def power(ctx: Cotangent, node: UOp) -> Gradients:
    """a**b: b * a**(b - 1), and a**b * log(a).

    A power of 0 is flat in its base, and 0 to a power of at least 0 is flat in the exponent.
    """
    a, b = node.src
    below = a.alu(Ops.POW, b - 1)
    to_base = ctx.scaled(lambda g: g * b * below, pole=True).selected(b.ne(0))
    to_exponent = ctx.scaled(lambda g: g * node * a.log(), pole=True)
    return to_base, to_exponent.selected(a.ne(0) | (b < 0))


def reciprocal(ctx: Cotangent, node: UOp) -> Gradients:
    """1 / x: -(1 / x)**2."""
    return (ctx.scaled(lambda g: -(g * node * node), pole=True),)


def square_root(ctx: Cotangent, node: UOp) -> Gradients:
    """sqrt(x): 1 / (2 sqrt(x))."""
    return (ctx.scaled(lambda g: g / (node * 2), pole=True),)


def exponential(ctx: Cotangent, node: UOp) -> Gradients:
    """e**x."""
    return (ctx.scaled(lambda g: g * node, pole=True),)


def exponential_of_2(ctx: Cotangent, node: UOp) -> Gradients:
    """2**x: 2**x log(2)."""
    return (ctx.scaled(lambda g: g * node * math.log(2), pole=True),)


def logarithm(ctx: Cotangent, node: UOp) -> Gradients:
    """log(x): 1 / x."""
    return (ctx.scaled(lambda g: g / node.src[0], pole=True),)


def logarithm_of_2(ctx: Cotangent, node: UOp) -> Gradients:
    """log2(x): 1 / (x log(2))."""
    return (ctx.scaled(lambda g: g / (node.src[0] * math.log(2)), pole=True),)


def sine(ctx: Cotangent, node: UOp) -> Gradients:
    """sin(x): cos(x)."""
    return (ctx.scaled(lambda g: g * node.src[0].cos()),)


def cosine(ctx: Cotangent, node: UOp) -> Gradients:
    """cos(x): -sin(x)."""
    return (ctx.scaled(lambda g: -(g * node.src[0].sin())),)


def hyperbolic_tangent(ctx: Cotangent, node: UOp) -> Gradients:
    """tanh(x): 1 - tanh(x)**2."""
    return (ctx.scaled(lambda g: g * (1.0 - node * node)),)


def choose(ctx: Cotangent, node: UOp) -> Gradients:
    """WHERE selects."""
    condition = node.src[0]
    return None, ctx.selected(condition), ctx.selected(~condition)


def cast(ctx: Cotangent, node: UOp) -> Gradients:
    """Between floats the cotangent is cast back; a number that was an int has no slope."""
    source = node.src[0]
    return (ctx.scaled(lambda g: g.cast(source.dtype)) if source.dtype.is_float else None,)
