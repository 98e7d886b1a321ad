# make demo   a collector, and 200,000 devices that send to it      make check  format, lint, types, layers
# make test   the whole test suite                               make bench  speed beside peers
# make torture  the collector is killed 500 times under load (STORE=postgresql://... for that store)
.PHONY: setup demo test torture check format bench tables clean

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install -q --disable-pip-version-check -e '.[arrow,data,learn,plots,postgres,server,dev]'
	touch $@

demo: setup
	$(BIN)/murmur demo $(if $(ONCE),--once)

test: setup
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --doctest-modules --cov --cov-report=term src tests

torture: setup
	OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/torture.py --kills 500 $(if $(STORE),--store '$(STORE)')

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@! git grep -nIE 'https?://[^ ]*(pypi|npmjs|debian)' -- '*constraints*' '*lock*' || { echo "registry address in a pinned file"; exit 1; }

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/run_collector.py

tables: setup
	$(BIN)/python benchmarks/tables.py

clean:
	rm -rf $(VENV) out .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis
