"""The text of errors, their codes, and whose line they blame."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from pathlib import Path

import pytest

from loomgrad.errors import (
    LIBRARY_FOLDER,
    PACKAGE_FOLDER,
    LoomError,
    RewriteLoopError,
    ShapeError,
    did_you_mean,
    error_classes,
    explain,
    user_line,
)

CLASSES = list(error_classes().values())


def line_here() -> int:
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno


def test_layout_of_the_text() -> None:
    error = ShapeError(
        "cannot add tensors of these shapes",
        left=(2, 3),
        right=(2,),
        fix="y.reshape(2, 1)",
        where="train.py:12",
    )
    assert str(error).splitlines() == [
        "LG211 · cannot add tensors of these shapes (at train.py:12)",
        "  left: (2, 3), right: (2,)",
        "  Fix: y.reshape(2, 1)",
        "  More: python -m loomgrad explain LG211",
    ]


def test_what_is_not_known_is_not_printed() -> None:
    assert str(LoomError("something broke", where="")) == "LG000 · something broke"


def test_the_users_line_is_named() -> None:
    error, line = ShapeError("no"), line_here()
    assert error.where.endswith(f"test_errors.py:{line}")
    assert f"test_errors.py:{line})" in str(error)


def test_frames_of_loomgrad_and_the_library_are_not_the_users() -> None:
    """An error deep inside, raised through the standard library, blames this file all the same."""
    program = "def outer(through): return through(inner)\ndef inner(): return user_line()"
    inside = defined_in(PACKAGE_FOLDER + "deep/inside.py", program, user_line=user_line)
    library = defined_in(LIBRARY_FOLDER + "x.py", "def through(call): return call()")
    outer, through = inside["outer"], library["through"]
    assert callable(outer)
    found, line = outer(through), line_here()
    assert found.endswith(f"test_errors.py:{line}")


def test_packages_that_others_installed_are_the_users() -> None:
    path = LIBRARY_FOLDER + "site-packages/other.py"
    other = defined_in(path, "line = user_line()", user_line=user_line)
    assert other["line"] == f"{path}:1"


def defined_in(path: str, program: str, **names: object) -> dict[str, object]:
    """Run a program as if it stood in this file; the names it defines."""
    exec(compile(program, path, "exec"), names)
    return names


def test_a_file_in_the_current_folder_has_a_short_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = str(tmp_path / "train.py")
    assert defined_in(path, "\nline = user_line()", user_line=user_line)["line"] == "train.py:2"


def test_rules_of_a_loop_are_named() -> None:
    error = RewriteLoopError("rules undo each other", rules=("add.fold", "add.split"), steps=1000)
    assert error.rules == ("add.fold", "add.split")
    assert "rules: add.fold, add.split, steps: 1000" in str(error)


def test_the_fitting_builtins_catch_them() -> None:
    builtin = {
        error.__name__: [base.__name__ for base in error.__bases__ if base is not LoomError]
        for error in CLASSES
        if error is not LoomError
    }
    assert builtin["ShapeError"] == ["ValueError"]
    assert builtin["IndexingError"] == ["IndexError"]
    assert builtin["DTypeError"] == ["TypeError"]
    assert builtin["OutOfMemoryError"] == ["MemoryError"]
    assert all(len(bases) == 1 for bases in builtin.values())


def derived_from(error: type[LoomError]) -> list[type[LoomError]]:
    below = [each for derived in error.__subclasses__() for each in derived_from(derived)]
    return [error, *below]


def test_codes_are_unique_and_well_formed() -> None:
    codes = [error.code for error in CLASSES]
    assert len(set(codes)) == len(codes) == len(derived_from(LoomError))
    assert all(re.fullmatch(r"LG\d{3}", code) for code in codes)


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.code)
def test_every_code_is_explained(error: type[LoomError]) -> None:
    text = explain(error.code.lower())
    assert text.startswith(f"{error.code} · {error.__name__}\n\n")
    assert len(text.splitlines()) >= 4


def test_explaining_an_unknown_code() -> None:
    with pytest.raises(LoomError, match="LG21 is not an error code"):
        explain("LG21")


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.code)
def test_errors_survive_pickle_and_copy(error: type[LoomError]) -> None:
    original = error("no", fix="do", left=(1, 2), where="a.py:3")
    for twin in (pickle.loads(pickle.dumps(original)), copy.copy(original)):
        assert type(twin) is error
        assert str(twin) == str(original)


def test_did_you_mean() -> None:
    assert did_you_mean("flaot32", ["float32", "int32"]) == "did you mean float32?"
    assert did_you_mean("cpu", ["CPU", "CUDA"]) == "did you mean CPU?"
    assert did_you_mean("zzz", ["b", "a"]) == "known: a, b"
