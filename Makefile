# Everything happens in .venv, which the first target that needs it makes.  PYTHON=python3.12 picks another Python.

PYTHON ?= python3
BIN := .venv/bin
PACKAGES := loomgrad tests benchmarks

.PHONY: demo test lint types suite format clean

demo: .venv/installed           ## train on handwritten digits and show the result
	$(BIN)/loom demo

test: lint types suite          ## everything that must pass before a change lands

lint: .venv/test-installed
	$(BIN)/ruff check $(PACKAGES)
	$(BIN)/ruff format --check $(PACKAGES)

types: .venv/test-installed
	$(BIN)/mypy

suite: .venv/test-installed
	$(BIN)/python -m pytest -q -n auto --dist loadfile

format: .venv/test-installed    ## put the code into the house format
	$(BIN)/ruff check --fix $(PACKAGES)
	$(BIN)/ruff format $(PACKAGES)

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "loomgrad needs Python 3.11 or newer; say PYTHON=/path/to/it"; exit 1; }
	$(PYTHON) -m venv .venv
	touch $@

.venv/installed: .venv/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

.venv/test-installed: .venv/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $@ .venv/installed

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find $(PACKAGES) -name __pycache__ -type d -prune -exec rm -rf {} +
