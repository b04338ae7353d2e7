"""The weak table: equal keys give one object, entries go with their objects, threads agree."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from loomgrad.ir.weak_table import WeakTable


class Thing:
    """Something that can be referred to weakly."""

    __slots__ = ("__weakref__", "name")

    def __init__(self, name: str) -> None:
        self.name = name


@pytest.fixture(autouse=True)
def without_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def test_equal_keys_give_the_first_object() -> None:
    table: WeakTable[str, Thing] = WeakTable()
    first = table.intern("a", Thing("first"))
    assert table.intern("a", Thing("second")) is first
    assert table.get("a") is first
    assert table.intern("b", Thing("other")) is not first


def test_entries_go_with_their_objects() -> None:
    table: WeakTable[int, Thing] = WeakTable()
    kept = [table.intern(number, Thing("")) for number in range(1000)]
    assert len(table) == 1000
    del kept[500:]
    assert len(table) == 500
    assert table.get(700) is None
    kept.clear()
    assert len(table) == 0


def test_a_key_can_be_used_again() -> None:
    table: WeakTable[str, Thing] = WeakTable()
    table.intern("a", Thing("gone"))
    assert table.get("a") is None
    again = table.intern("a", Thing("again"))
    assert table.get("a") is again and len(table) == 1


def test_removing_an_old_entry_spares_a_new_one() -> None:
    """An object in a cycle dies late; its key may belong to another by then."""
    table: WeakTable[str, Thing] = WeakTable()
    old = Thing("old")
    table.intern("a", old)
    entry = table.entries["a"]
    del table.entries["a"]
    new = table.intern("a", Thing("new"))
    del old
    assert entry() is None
    assert table.get("a") is new


def test_threads_agree() -> None:
    table: WeakTable[int, Thing] = WeakTable()
    start = threading.Barrier(4)
    results: list[list[Thing]] = [[] for _ in range(4)]

    def work(found: list[Thing]) -> None:
        start.wait()
        found.extend(table.intern(number, Thing("")) for number in range(20_000))

    threads = [threading.Thread(target=work, args=(found,)) for found in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for others in results[1:]:
        assert all(a is b for a, b in zip(results[0], others, strict=True))
    assert len(table) == 20_000


def test_threads_that_make_and_drop_leave_nothing() -> None:
    table: WeakTable[int, Thing] = WeakTable()
    start = threading.Barrier(4)
    failures: list[int] = []

    def work() -> None:
        start.wait()
        for number in range(20_000):
            first = table.intern(number % 50, Thing(""))
            if table.intern(number % 50, Thing("")) is not first:
                failures.append(number)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(table) == 0
