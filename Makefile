# One virtual environment, made on first use, serves every target.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ONCE ?=
OUT ?= build/demo
PYTEST_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-long lint format bench generate clean

help:  ## what can be made here
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group dev
	@touch $@

venv: $(VENV)/.dev  ## the virtual environment with everything the tests need

demo: $(STAMP)  ## hub, two agents and one proof on this machine; ONCE=1 ends after the proof, OUT=DIR takes the files
	$(BIN)/provewire demo --out $(OUT) $(if $(ONCE),--once,)

clean:  ## remove what was built
	rm -rf $(VENV) build dist
