# `make quickstart` trains a small transformer; `make test` checks everything.
PYTHON ?= python3
VENV := .venv
# Tests are many and small: one process a core, one thread each.
PYTEST := OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest -q -n auto --dist loadfile
BIN := $(VENV)/bin
# Inputs of the fuzzer that is guided by coverage.
FUZZ := 300000
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
RUNS := $(VENV)/.runs
READY := $(VENV)/.ready

.PHONY: quickstart test lint types unit properties docs soak bench clean

quickstart: $(RUNS)
	$(BIN)/speedtronic train --config configs/quickstart.yaml --overwrite
	$(BIN)/speedtronic generate runs/quickstart --prompt "The " --max-tokens 200

test: lint types unit docs

$(RUNS): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) -e .
	touch $(RUNS)

$(READY): $(RUNS)
	$(INSTALL) -e '.[dev]'
	touch $(READY)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

unit: $(READY)
	$(PYTEST)

properties: $(READY)
	$(PYTEST) properties

docs: $(READY)
	$(BIN)/python -m sphinx -n -W -q -b html docs docs/_build/html

soak: $(READY)
	$(INSTALL) -e '.[dev,soak]'
	HYPOTHESIS_PROFILE=soak $(PYTEST) --timeout 0 properties
	$(BIN)/python properties/fuzz/coverage_guided.py -runs=$(FUZZ)

bench: $(READY)
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python benchmarks/readme.py
	$(BIN)/python benchmarks/step_time.py --memory
	$(BIN)/python benchmarks/peak.py
	$(BIN)/python benchmarks/loss_memory.py
	$(BIN)/python benchmarks/data.py
	$(BIN)/python benchmarks/checkpoint.py
	$(BIN)/python benchmarks/aggregate.py

clean:
	rm -rf $(VENV) build dist docs/_build runs .mypy_cache .ruff_cache .pytest_cache .hypothesis
