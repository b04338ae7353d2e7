"""`python -m loomgrad` is the `loom` command."""

from loomgrad.cli import main

raise SystemExit(main())
