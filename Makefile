# Needs python3 (3.11 or newer) with its venv module; everything else is installed into .venv.

BOOTSTRAP ?= python3
# one more than there are cores: many tests wait for processes and leases most of the time
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)

VENV := .venv
PYTHON := $(VENV)/bin/python
PIP := $(PYTHON) -m pip -qq --disable-pip-version-check

CREATED := $(VENV)/.created
INSTALLED := $(VENV)/.installed
INSTALLED_TEST := $(VENV)/.installed-test
INSTALLED_BENCH := $(VENV)/.installed-bench

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test dialect-gaps setup lint types contracts unit format bench docs clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

demo: $(INSTALLED) ## Install Rowcall and watch it work
	@$(VENV)/bin/rowcall demo

test: lint types contracts unit ## Run every check: lint, types, contracts, unit

setup: $(INSTALLED_TEST) ## Install Rowcall and the test tools into .venv

lint: $(INSTALLED_TEST) ## Check style and formatting
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .

types: $(INSTALLED_TEST) ## Check types
	$(PYTHON) -m mypy

contracts: $(INSTALLED_TEST) ## Check which room imports which
	$(VENV)/bin/lint-imports --no-logo

unit: $(INSTALLED_TEST) ## Run the tests (WORKERS=0 for one process, ARGS="-k name" to choose)
	$(PYTHON) -m pytest -n $(WORKERS) $(ARGS)

format: $(INSTALLED_TEST) ## Format the code and fix what can be fixed
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

bench: $(INSTALLED_BENCH) ## Measure, and print the figures
	$(PYTHON) -m benchmarks $(ARGS)

docs: $(INSTALLED) ## Draw the state diagram from the table of transitions
	$(PYTHON) docs/draw_states.py

dialect-gaps: $(INSTALLED) ## List what a database package still lacks (PACKAGE=rowcall.store.oracle)
	@$(PYTHON) -m rowcall.testing.dialect_gaps $(PACKAGE)

clean: ## Remove .venv, caches and build results
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks docs -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# A stamp is written last, so an interrupted set-up starts again.

$(CREATED):
	@$(BOOTSTRAP) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Rowcall needs Python 3.11 or newer; choose one with: make BOOTSTRAP=python3.12 ...")'
	@echo "Creating $(VENV)"
	@$(BOOTSTRAP) -m venv --clear $(VENV)
	@touch $@

$(INSTALLED): pyproject.toml | $(CREATED)
	@echo "Installing Rowcall into $(VENV)"
	@$(PIP) install --editable .
	@touch $@

$(INSTALLED_TEST): pyproject.toml | $(CREATED)
	@echo "Installing Rowcall and the test tools into $(VENV)"
	@$(PIP) install --editable '.[test]'
	@touch $(INSTALLED) $@

$(INSTALLED_BENCH): pyproject.toml | $(CREATED)
	@echo "Installing Rowcall and the benchmark tools into $(VENV)"
	@$(PIP) install --editable '.[bench,uvloop]'
	@touch $(INSTALLED) $@
