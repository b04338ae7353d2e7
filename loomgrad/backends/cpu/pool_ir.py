"""The native half of the worker pool, as LLVM IR.

A launch publishes one job: a kernel, its arguments and how many chunks its extent is cut into.  The caller and
the workers claim chunks until none is left, so a worker that the system keeps from running delays nobody.

`ticket` holds the number of the launch in its upper half and the count of unclaimed chunks in its lower half.
A claim is one compare-and-swap of the whole: when it succeeds, the launch that was seen before the job's other
fields were read is still going on, so those fields belong to it.

A thread with nothing to do spins for some microseconds, then sleeps on a futex: workers on `epoch`, which every
launch increments, a caller on `pending`, the count of unfinished chunks.  `sleepers` and `waiting` say whether
anybody is to be woken; each is set before, and read after, the word that the sleeper waits on (all of these are
sequentially consistent), so no wake-up is lost.

`owner` is 1 while a launch uses the workers.  Whoever finds it taken runs the kernel alone.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# The fields of `state` and their offsets.  Those that different threads write lie in (pairs of) cache lines of their
# own.  The text below writes a field as `@name`.
FIELDS = {
    "ticket": 0,
    "function": 8,
    "arguments": 16,
    "extent": 24,
    "chunks": 32,
    "pending": 128,
    "waiting": 132,
    "epoch": 256,
    "sleepers": 260,
    "stop": 264,
    "owner": 384,
    "workers": 388,
}
STATE_BYTES = 512


class Machine(NamedTuple):
    """What differs between processors: the number of the futex system call, how to say "I spin"."""

    futex: int
    declare_pause: str
    pause: str


MACHINES = {
    "x86_64": Machine(
        202, "declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"
    ),
    "aarch64": Machine(
        98, "declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"
    ),
}

_STATE = f"@state = global [{STATE_BYTES} x i8] zeroinitializer, align 128\n"

_LAUNCH = """
define void @loom_launch(ptr %function, ptr %arguments, i64 %extent, i64 %wanted) {
  %bounded = call i64 @llvm.smin.i64(i64 %wanted, i64 1073741824)
  %chunks = call i64 @llvm.smin.i64(i64 %bounded, i64 %extent)
  %workers = load atomic i32, ptr @workers monotonic, align 4
  %single = icmp sle i64 %chunks, 1
  %nobody = icmp eq i32 %workers, 0
  %inline = or i1 %single, %nobody
  br i1 %inline, label %alone, label %acquire
acquire:
  %owned = cmpxchg ptr @owner, i32 0, i32 1 acquire monotonic
  %free = extractvalue { i32, i1 } %owned, 1
  br i1 %free, label %publish, label %alone
alone:
  call void %function(ptr %arguments, i64 0, i64 %extent)
  ret void
publish:
  store atomic ptr %function, ptr @function monotonic, align 8
  store atomic ptr %arguments, ptr @arguments monotonic, align 8
  store atomic i64 %extent, ptr @extent monotonic, align 8
  store atomic i64 %chunks, ptr @chunks monotonic, align 8
  %count = trunc i64 %chunks to i32
  store atomic i32 %count, ptr @pending monotonic, align 4
  %before = load atomic i64, ptr @ticket monotonic, align 8
  %number = lshr i64 %before, 32
  %next = add i64 %number, 1
  %upper = shl i64 %next, 32
  %ticket = or i64 %upper, %chunks
  store atomic i64 %ticket, ptr @ticket seq_cst, align 8
  %old = atomicrmw add ptr @epoch, i32 1 seq_cst
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %any = icmp ne i32 %asleep, 0
  br i1 %any, label %rouse, label %help
rouse:
  %helpers = sub i32 %count, 1
  call void @wake(ptr @epoch, i32 %helpers)
  br label %help
help:
  call void @work()
  br label %spin
spin:
  %turn = phi i32 [ 0, %help ], [ %turned, %idle ]
  %left = load atomic i32, ptr @pending acquire, align 4
  %done = icmp eq i32 %left, 0
  br i1 %done, label %finish, label %idle
idle:
  PAUSE
  %turned = add i32 %turn, 1
  %patient = icmp ult i32 %turned, SPIN
  br i1 %patient, label %spin, label %sleep
sleep:
  store atomic i32 1, ptr @waiting seq_cst, align 4
  %still = load atomic i32, ptr @pending seq_cst, align 4
  %over = icmp eq i32 %still, 0
  br i1 %over, label %awake, label %wait
wait:
  call void @wait(ptr @pending, i32 %still)
  br label %sleep
awake:
  store atomic i32 0, ptr @waiting monotonic, align 4
  br label %finish
finish:
  store atomic i32 0, ptr @owner release, align 4
  ret void
}
"""

_WORK = """
define internal void @work() {
  br label %claim
claim:
  %ticket = load atomic i64, ptr @ticket acquire, align 8
  %left = and i64 %ticket, 4294967295
  %none = icmp eq i64 %left, 0
  br i1 %none, label %finish, label %try
try:
  %function = load atomic ptr, ptr @function monotonic, align 8
  %arguments = load atomic ptr, ptr @arguments monotonic, align 8
  %extent = load atomic i64, ptr @extent monotonic, align 8
  %chunks = load atomic i64, ptr @chunks monotonic, align 8
  %taken = sub i64 %ticket, 1
  %swap = cmpxchg ptr @ticket, i64 %ticket, i64 %taken acq_rel monotonic
  %mine = extractvalue { i64, i1 } %swap, 1
  br i1 %mine, label %run, label %claim
run:
  %chunk = sub i64 %chunks, %left
  %size = udiv i64 %extent, %chunks
  %longer = urem i64 %extent, %chunks
  %start = mul i64 %chunk, %size
  %shift = call i64 @llvm.smin.i64(i64 %chunk, i64 %longer)
  %lo = add i64 %start, %shift
  %is_longer = icmp ult i64 %chunk, %longer
  %extra = zext i1 %is_longer to i64
  %length = add i64 %size, %extra
  %hi = add i64 %lo, %length
  call void %function(ptr %arguments, i64 %lo, i64 %hi)
  %before = atomicrmw sub ptr @pending, i32 1 seq_cst
  %last = icmp eq i32 %before, 1
  br i1 %last, label %announce, label %claim
announce:
  %waiting = load atomic i32, ptr @waiting seq_cst, align 4
  %asleep = icmp ne i32 %waiting, 0
  br i1 %asleep, label %rouse, label %claim
rouse:
  call void @wake(ptr @pending, i32 1)
  br label %claim
finish:
  ret void
}

define ptr @loom_worker(ptr %unused) {
  br label %work
work:
  call void @work()
  br label %spin
spin:
  %turn = phi i32 [ 0, %work ], [ %turned, %idle ]
  %ticket = load atomic i64, ptr @ticket monotonic, align 8
  %count = trunc i64 %ticket to i32
  %any = icmp ne i32 %count, 0
  br i1 %any, label %work, label %idle
idle:
  PAUSE
  %turned = add i32 %turn, 1
  %patient = icmp ult i32 %turned, SPIN
  br i1 %patient, label %spin, label %tired
tired:
  %epoch = load atomic i32, ptr @epoch seq_cst, align 4
  %before = atomicrmw add ptr @sleepers, i32 1 seq_cst
  %latest = load atomic i64, ptr @ticket seq_cst, align 8
  %unclaimed = trunc i64 %latest to i32
  %stop = load atomic i32, ptr @stop seq_cst, align 4
  %reasons = or i32 %unclaimed, %stop
  %calm = icmp eq i32 %reasons, 0
  br i1 %calm, label %sleep, label %rise
sleep:
  call void @wait(ptr @epoch, i32 %epoch)
  br label %rise
rise:
  %after = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  %stopped = load atomic i32, ptr @stop seq_cst, align 4
  %leave = icmp ne i32 %stopped, 0
  br i1 %leave, label %finish, label %work
finish:
  ret ptr null
}
"""

_STOP = """
define void @loom_stop() {
  br label %acquire
acquire:
  %owned = cmpxchg ptr @owner, i32 0, i32 1 acquire monotonic
  %free = extractvalue { i32, i1 } %owned, 1
  br i1 %free, label %order, label %again
again:
  PAUSE
  br label %acquire
order:
  store atomic i32 1, ptr @stop seq_cst, align 4
  %old = atomicrmw add ptr @epoch, i32 1 seq_cst
  call void @wake(ptr @epoch, i32 2147483647)
  ret void
}
"""

_FUTEX = """
declare i64 @syscall(i64, ...)
declare i64 @llvm.smin.i64(i64, i64)
DECLARE_PAUSE

define internal void @wait(ptr %word, i32 %expected) {
  %result = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i32 128, i32 %expected, ptr null, ptr null, i32 0)
  ret void
}

define internal void @wake(ptr %word, i32 %count) {
  %result = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %word, i32 129, i32 %count, ptr null, ptr null, i32 0)
  ret void
}
"""


_LAUNCH_ALONE = """
define void @loom_launch(ptr %function, ptr %arguments, i64 %extent, i64 %wanted) {
  call void %function(ptr %arguments, i64 0, i64 %extent)
  ret void
}
"""


def pool_source(machine: Machine | None, spin: int) -> str:
    """The module; `spin` is how many pauses a thread without work makes before it sleeps."""
    if machine is None:
        return _LAUNCH_ALONE
    text = _STATE + _FUTEX + _WORK + _LAUNCH + _STOP
    text = text.replace("DECLARE_PAUSE", machine.declare_pause).replace("PAUSE", machine.pause)
    text = text.replace("FUTEX", str(machine.futex)).replace("SPIN", str(spin))
    for name, offset in FIELDS.items():
        text = re.sub(rf"@{name}\b", f"getelementptr (i8, ptr @state, i64 {offset})", text)
    return text
