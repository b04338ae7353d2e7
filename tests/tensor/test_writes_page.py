"""What docs/writes.md shows is what happens."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from loomgrad import Tensor, dtypes

PAGE = (Path(__file__).parents[2] / "docs" / "writes.md").read_text()
LINES = re.findall(r"^    (.*)$", PAGE, re.MULTILINE)


def test_the_examples_print_what_their_comments_say() -> None:
    """Comments after a print hold its line.  Later examples go on with the names of earlier ones."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec("\n".join(LINES), {"Tensor": Tensor, "dtypes": dtypes})
    promised = [line.removeprefix("# ") for line in LINES if line.startswith("# ")]
    assert len(promised) == 6 and output.getvalue().splitlines() == promised
