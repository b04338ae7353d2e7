"""Settings of the whole suite, made before loomgrad is imported."""

import os

from hypothesis import settings

# Tests verify the graph between passes and compare every kernel with the evaluator, also in the processes that
# they start.
os.environ.setdefault("LOOMGRAD_VERIFY", "1")
os.environ.setdefault("LOOMGRAD_CHECK", "1")

# The same examples on every run: a failure in CI is one here too.  No deadline: compiling takes its time.
settings.register_profile("suite", deadline=None, derandomize=True)
settings.load_profile("suite")
