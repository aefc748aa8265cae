# One virtual environment and one node_modules, made on first use, serve every target.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
ONCE ?=
OUT ?= build/demo
PYTEST_ARGS ?=
SOAK_MINUTES ?= 60
FUZZ_SECONDS ?= 600
CUDA_SOURCES := $(shell git ls-files 'kernels/*.cu' 'kernels/*.cuh' 'kernels/*.cpp' 'kernels/*.h' 2>/dev/null)

PAGE_SOURCES := $(shell find web -type f -not -name schema.ts 2>/dev/null) package-lock.json $(wildcard hub/api/*.py)

.DEFAULT_GOAL := help
.PHONY: help venv page demo test more test-long chaos drills lint format fuzz bench bench-quick generate sass cuda clean

help:  ## what can be made here
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(VENV)/.base: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed, and $(PYTHON) is not; name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade "pip>=25.1"
	$(PIP) install --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	$(PIP) install --group dev
	@touch $@

# snarkjs, circom2 and circomlib: other people's verifier and compiler, which the tests ask. Without npm those tests skip.
node_modules/.package-lock.json: package-lock.json
	@if command -v npm >/dev/null; then npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && touch $@; \
	else echo "npm is missing: tests that need snarkjs will skip (apt-get install nodejs npm)"; fi

venv: $(VENV)/.dev  ## the virtual environment with everything the tests need

# The page's types come from the hub's own OpenAPI document, so a change of the interface that breaks the page fails here.
hub/page/index.html: $(VENV)/.base node_modules/.package-lock.json $(PAGE_SOURCES)
	@if command -v npm >/dev/null; then set -e; mkdir -p build && $(BIN)/python -m hub.api > build/openapi.json; \
		npm run --silent types >/dev/null && npm run --silent build -- --logLevel warn && touch $@; \
	else echo "npm is missing: the hub will have no page (apt-get install nodejs npm)"; fi

page: hub/page/index.html  ## the hub's page, from web/ into hub/page/

demo: $(VENV)/.base page  ## hub, two agents and one proof on this machine; ONCE=1 ends after the proof, OUT=DIR takes its files
	$(BIN)/provewire demo --out "$(OUT)" $(if $(ONCE),--once,)

# Six at a time on two cores: many of them wait for processes they have killed, stopped or cut off.
# The tests start hundreds of processes of ours: with bytecode kept, each starts in two thirds of the time.
test more test-long chaos cuda: export PYTHONDONTWRITEBYTECODE =

# The kernels' laws, proofs by them, and all that is around a driver: `make test` has no time for them.
CARDS_TESTS := tests/kernels tests/prover/cuda tests/device
# Nor for these: the laws of a CPU's functions, and whether the benches run.
MORE_TESTS := tests/prover/test_native.py tests/bench

test: $(VENV)/.dev node_modules/.package-lock.json page  ## the tests but those of make more and make cuda, at most 10 minutes on two cores
	@if command -v npm >/dev/null; then npm run --silent test -- --reporter=dot; fi
	$(BIN)/python -m pytest -n 6 --dist worksteal -m "not long and not gpu" $(addprefix --ignore=,$(CARDS_TESTS) $(MORE_TESTS)) $(PYTEST_ARGS)

more: $(VENV)/.dev page  ## the laws of a CPU's functions, and every bench in small, about a minute
	$(BIN)/python -m pytest -n 4 --dist worksteal -m "not long and not gpu" $(MORE_TESTS) $(PYTEST_ARGS)

test-long: $(VENV)/.dev node_modules/.package-lock.json page  ## also the slow ones
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not gpu" $(PYTEST_ARGS)

chaos: $(VENV)/.dev  ## everything that can happen, for PROVEWIRE_CHAOS_MINUTES (30), and every crash point
	$(BIN)/python -m tests.chaos

drills: $(VENV)/.dev page  ## twelve things that go wrong, over a real fleet; what each showed is in build/drills.jsonl (docs/drills.md)
	rm -f build/drills.jsonl
	$(BIN)/python -m pytest tests/drills/test_drills.py $(PYTEST_ARGS)

lint: $(VENV)/.dev  ## ruff, mypy --strict, clang-format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(if $(CUDA_SOURCES),$(BIN)/clang-format --dry-run --Werror $(CUDA_SOURCES),)

format: $(VENV)/.dev  ## let the formatters write
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format --quiet .
	$(if $(CUDA_SOURCES),$(BIN)/clang-format -i $(CUDA_SOURCES),)

fuzz: $(VENV)/.dev  ## the wire under a coverage-guided fuzzer, FUZZ_SECONDS long; what it found stays in build/fuzz
	$(PIP) install --group fuzz
	mkdir -p build/fuzz && cd build/fuzz && PYTHONPATH=../.. ../../$(BIN)/python -m tests.fuzz.wire --seconds $(FUZZ_SECONDS) --corpus corpus

generate: $(VENV)/.base  ## write again what is generated from data (curve parameters)
	$(BIN)/python -m kernels.generate

define run_benches
	@failed=; for bench in $(1); do echo "== $$bench"; $(BIN)/python -m bench.$$bench || failed="$$failed [$$bench]"; done; \
	if [ -n "$$failed" ]; then echo "missed what is required:$$failed" >&2; exit 1; fi
endef

bench: $(VENV)/.dev page  ## every figure of docs/performance.md, one JSON line each; about 2 hours, 60 minutes of them the soak
	$(call run_benches,prove ingest "idle --count 2000" "idle --count 10000" latency reconnect agent page "soak --minutes $(SOAK_MINUTES)")

bench-quick: $(VENV)/.dev page  ## the same in small, about 8 minutes; says whether they run, not how fast we are
	$(call run_benches,"prove --rounds 1 --log2-max 14" "ingest --agents 100 --minutes 2 --rounds 1" "idle --count 500 --settle-s 5" \
		"latency --count 200 --seconds 15" "reconnect --count 200 --down-s 10" "agent --seconds 20" "page --minutes 2 --count 100" "soak --minutes 2 --count 100")

sass: $(VENV)/.dev  ## the kernels' machine code, counted for five kinds of card, into docs/performance.md; needs nvcc, about 10 minutes
	$(BIN)/python -m bench.sass

cuda: $(VENV)/.dev  ## sass for sm_90 alone (for all where the kernels are others), and the tests of kernels and drivers; about 7 minutes
	@if command -v nvcc >/dev/null; then $(BIN)/python -m bench.sass --check; \
	else echo "nvcc is missing: the kernels are not compiled for cards (a CUDA toolkit, or the packages of the extra gpu)"; fi
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not gpu" $(CARDS_TESTS) $(PYTEST_ARGS)

clean:  ## remove what was built
	rm -rf $(VENV) build dist node_modules
