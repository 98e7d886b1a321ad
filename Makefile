# make demo     a collector, and 200,000 devices that send to it     make quick  most tests, in about a minute
# make test     all tests, the quick ones with coverage              make check  format, lint, types, layers
# make evidence what takes longer, written to evidence/                make web    the client and the pages, built
# make bench    speed beside peers
# make torture  the collector is killed 500 times under load (STORE=postgresql://... for that store)
.PHONY: setup demo quick test evidence torture check check-web check-pins format bench tables web clean

# The first Python here that is new enough, unless one is named: make demo PYTHON=...
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for one in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$one -c '$(NEW_ENOUGH)' 2>/dev/null && echo $$one && break; done)
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.run
ALL := $(VENV)/.all
WEB := web/client
PAGES := web/pages
NODE := $(WEB)/node_modules/.package-lock.json $(PAGES)/node_modules/.package-lock.json
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
	$(INSTALL) -e '.[arrow,brotli,data,learn,onnx,plots,postgres,server,spark,dev]'
	touch $@

# What the browser's client and the pages are built and tested with; a run needs none of it.
$(NODE): web/%/node_modules/.package-lock.json: web/%/package.json web/%/package-lock.json
	cd web/$* && npm ci --silent --no-audit --no-fund
	touch $@

# The files that collectors serve; they are committed, so that an installation needs no node.
web: setup $(NODE)
	$(BIN)/python -m murmuration.wire.protocol docs/vectors/protocol.json
	cd $(WEB) && node bundle.mjs
	cd $(PAGES) && node bundle.mjs

demo: $(RUN)
	$(BIN)/murmur demo $(if $(ONCE),--once)

quick: setup $(NODE)
	cd $(WEB) && npm test --silent
	$(TESTS) -m 'not slow' tests

test: setup $(NODE)
	cd $(WEB) && npm test --silent
	$(TESTS) -m 'not unmeasured' --doctest-modules --cov --cov-report=term src tests
	$(TESTS) -m unmeasured tests

# What takes longer than tests: figures, seeds and commit to evidence/. make evidence PIECES='lives kills'
evidence: setup
	$(BIN)/python -m experiments.evidence $(PIECES)
	$(if $(PIECES),,$(BIN)/python -m tests.support.mutation run --sample 300 --seed 1 --out evidence/mutation.json)

torture: setup
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.support.torture --kills 500 $(if $(STORE),--store '$(STORE)')

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) --no-print-directory check-web check-pins

check-web: $(NODE)
	cd $(WEB) && npx tsc --noEmit && node bundle.mjs --check
	cd $(PAGES) && npx tsc && node bundle.mjs --check

check-pins:
	@! git grep -nIE 'https?://[^ ]*(pypi|npmjs|debian)' -- '*constraints*' '*lock*' || { echo "registry address in a pinned file"; exit 1; }

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.run_collector --seconds 4 --rounds 1
	$(BIN)/python -m benchmarks.run_side_by_side
	$(BIN)/python -m benchmarks.run_overload

tables: setup
	$(BIN)/python -m benchmarks.tables

clean:
	rm -rf $(VENV) $(WEB)/node_modules $(WEB)/dist $(WEB)/out $(PAGES)/node_modules out .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis
