# make demo     a collector, and 200,000 devices that send to it     make quick  most tests, in about a minute
# make test     all tests, the quick ones with coverage               make check  format, lint, types, layers
# make bench    speed beside peers
# make torture  the collector is killed 500 times under load (STORE=postgresql://... for that store)
.PHONY: setup demo quick test torture check format bench tables clean

# The first Python here that is new enough, unless one is named: make demo PYTHON=...
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for one in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$one -c '$(NEW_ENOUGH)' 2>/dev/null && echo $$one && break; done)
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.run
ALL := $(VENV)/.all
# Modules are compiled when they are first imported, and kept: most never are.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install -q --disable-pip-version-check --no-compile
# Three processes on two cores: many tests wait, for a process, a disk or a deadline.
TESTS := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 3 --dist worksteal

setup: $(ALL)

# What a run needs: the commands and the collector.
$(RUN): pyproject.toml constraints.txt
	@$(or $(PYTHON),false) -c '$(NEW_ENOUGH)' || { echo "this needs Python 3.11 or later; name one with PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[server]'
	touch $@

# What tests and checks need beside it.
$(ALL): $(RUN)
	$(INSTALL) -e '.[arrow,data,learn,plots,postgres,server,dev]'
	touch $@

demo: $(RUN)
	$(BIN)/murmur demo $(if $(ONCE),--once)

quick: setup
	$(TESTS) -m 'not slow' tests

test: setup
	$(TESTS) -m 'not unmeasured' --doctest-modules --cov --cov-report=term src tests
	$(TESTS) -m unmeasured tests

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
