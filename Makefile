# Needs python3 (3.11 or newer) with its venv module; everything else is installed into .venv.

BOOTSTRAP ?= python3
# three more than there are cores: many tests wait for processes and leases most of the time
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 3)

VENV := .venv
PYTHON := $(VENV)/bin/python
PIP := $(PYTHON) -m pip -qq --disable-pip-version-check

CREATED := $(VENV)/.created
INSTALLED := $(VENV)/.installed
INSTALLED_TEST := $(VENV)/.installed-test
TRIED_MARIADB := $(VENV)/.tried-mariadb
COMPILED := $(VENV)/.compiled-tests
INSTALLED_BENCH := $(VENV)/.installed-bench
DJANGO_TESTS := $(VENV)/django-tests
OLDEST := .venv-oldest
INSTALLED_OLDEST := $(OLDEST)/.installed

# the quick tests: rooms that need neither a server nor other processes, and a ring through both databases
QUICK_ROOMS := base domain declare operations overview store
QUICK_RING := TestEnqueue TestClaim TestSettle TestStage TestFence TestRetry TestTransaction
QUICK := $(wildcard $(QUICK_ROOMS:%=tests/%)) $(wildcard tests/test_*.py) --ignore=tests/store/postgres \
	$(foreach ring,$(QUICK_RING),$(addsuffix ::$(ring),tests/conformance/test_sqlite.py tests/conformance/test_postgres.py))

# check the style, then run targets side by side (one core would idle next to mypy), and print how long it all took
timed = start=$$(date +%s); status=0; \
	$(MAKE) --no-print-directory lint && $(MAKE) --no-print-directory -j3 SIDE_BY_SIDE=1 $(2) || status=$$?; \
	echo "make $(1) took $$(($$(date +%s) - start)) s"; exit $$status

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
ifndef SIDE_BY_SIDE
.NOTPARALLEL:
endif
.PHONY: help demo check test test-py313 test-oldest thorough faults simulate planted dist dialect-gaps setup lint types contracts quick unit format bench bench-field docs screenshots terminal clean
# the tests start hundreds of interpreters, and each would compile the package again
unexport PYTHONDONTWRITEBYTECODE

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

demo: $(INSTALLED) ## Install Rowcall and watch it work (ARGS=--keep serves its dashboard)
	@$(VENV)/bin/rowcall demo $(ARGS)

check: $(INSTALLED_TEST) ## Run the quick checks: lint, types, contracts, quick
	@$(call timed,check,types contracts quick)

test: $(INSTALLED_TEST) ## Run every check: lint, types, contracts, unit
	@$(call timed,test,types contracts unit)

# the column "all" of the table in tests/README.md
thorough: export ROWCALL_TEST_HISTORIES ?= 40
thorough: export ROWCALL_TEST_STORM_JOBS ?= 20000
thorough: export ROWCALL_TEST_STEP_STORM_JOBS ?= 1000
thorough: export ROWCALL_TEST_KILL_JOBS ?= 20000
thorough: export ROWCALL_TEST_PRUNER_KILLS ?= 50
thorough: export ROWCALL_TEST_GRAPHS ?= 40
thorough: export ROWCALL_TEST_ZONES_PER_LINE ?= 6
thorough: export ROWCALL_TEST_OUTAGE_SECONDS ?= 30
thorough: export ROWCALL_TEST_STORM_FAULTS ?= 30
thorough: export ROWCALL_TEST_ODD_ROWS ?= 20
thorough: export ROWCALL_TEST_KIND_SHARE ?= 1
thorough: export ROWCALL_TEST_MEETING_SHARE ?= 1
thorough: export ROWCALL_TEST_EXAMPLE_DATABASES ?= 3
thorough: export ROWCALL_TEST_CANCEL_SHARE ?= 1
thorough: export ROWCALL_TEST_MOVE_KILLS ?= 50
thorough: export ROWCALL_TEST_FORKS ?= 10
thorough: export ROWCALL_TEST_SEEDS ?= 1000
thorough: export ROWCALL_TEST_FAILOVERS ?= 10
thorough: export ROWCALL_TEST_REQUESTS ?= 20
thorough: export ROWCALL_TEST_FAIR_JOBS ?= 100000
thorough: export ROWCALL_TEST_ORDER_ACCOUNTS ?= 1000
thorough: export ROWCALL_TEST_MYSQL ?= all
thorough: $(INSTALLED_TEST) ## Run the tests with all their repetitions
	@$(MAKE) --no-print-directory unit

test-py313: ## Run every check with Python 3.13, in a chroot of Debian 13 (needs root and debootstrap)
	tools/test_in_chroot test

test-oldest: $(INSTALLED_OLDEST) ## Run the quick tests with the oldest version of each library that pyproject.toml allows
	$(OLDEST)/bin/python -m pytest -q -m "not slow" -n $(WORKERS) --dist worksteal $(QUICK) $(ARGS)

faults: $(INSTALLED_TEST) ## Let each statement of each call fail in each way (ARGS="sqlite --only enqueue --share 10")
	$(PYTHON) -m tests.faults $(ARGS)

simulate: SEEDS ?= 0-199
simulate: $(INSTALLED_TEST) ## Run worlds of workers under virtual time (SEEDS=0-999, ARGS="--mode safety" for one mode)
	$(PYTHON) -m tests.simulation --seeds $(SEEDS) $(ARGS)

planted: $(INSTALLED_TEST) ## Plant one defect at a time, and show which tests notice it (ARGS="--only fence --layers kit")
	$(PYTHON) -m tests.planted $(ARGS)

dist: $(INSTALLED_TEST) ## Build the source archive and the wheel, and check them
	rm -rf dist
	$(PYTHON) -m build --no-isolation --outdir dist
	$(PYTHON) -m twine check --strict dist/*

setup: $(INSTALLED_TEST) ## Install Rowcall and the test tools into .venv

lint: $(INSTALLED_TEST) ## Check style and formatting
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .

types: $(INSTALLED_TEST) ## Check types
	$(PYTHON) -m mypy

contracts: $(INSTALLED_TEST) ## Check which room imports which
	$(VENV)/bin/lint-imports --no-logo

quick: $(INSTALLED_TEST) ## Run the quick tests (ARGS as for unit)
	$(PYTHON) -m pytest -q -m "not slow" -n $(WORKERS) --dist worksteal --durations=10 --durations-min=1 $(QUICK) $(ARGS)

unit: $(INSTALLED_TEST) $(TRIED_MARIADB) $(COMPILED) ## Run the tests (WORKERS=0 for one process, ARGS="-k name" to choose)
	$(PYTHON) -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

format: $(INSTALLED_TEST) ## Format the code and fix what can be fixed
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

bench: $(INSTALLED_BENCH) ## Measure, and print the figures
	$(PYTHON) -m benchmarks $(ARGS)

bench-field: $(INSTALLED_TEST) ## Measure other queues by the commands of their docs (ARGS="--only huey,rowcall-sqlite --quick")
	$(PYTHON) -m benchmarks.field $(ARGS)

docs: $(INSTALLED_TEST) ## Draw the states, write the commands, and build the site of the documentation into build/site
	$(PYTHON) docs/draw_states.py
	$(PYTHON) docs/write_cli.py
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --quiet --strict

terminal: $(INSTALLED) ## Draw what demo and top print into docs/terminal again
	$(PYTHON) docs/draw_terminal.py

screenshots: $(INSTALLED_TEST) ## Take the screenshots of the dashboard again (needs Chromium)
	$(PYTHON) docs/take_screenshots.py $(ARGS)

dialect-gaps: $(INSTALLED) ## List what a database package still lacks (PACKAGE=rowcall.store.oracle)
	@$(PYTHON) -m rowcall.testing.dialect_gaps $(PACKAGE)

.PHONY: django-tests
django-tests: $(DJANGO_TESTS) ## Run Django's own tests of task backends against ours, and list which are left out
	DATABASE_FILE=$(VENV)/django-tests.db $(PYTHON) -m tests.integrations.django.own_tests $(DJANGO_TESTS)

clean: ## Remove .venv, caches and build results
	rm -rf $(VENV) $(OLDEST) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks docs -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# A stamp is written last, so an interrupted set-up starts again.

$(CREATED):
	@$(BOOTSTRAP) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Rowcall needs Python 3.11 or newer; choose one with: make BOOTSTRAP=python3.12 ...")'
	@echo "Creating $(VENV)"
	@$(BOOTSTRAP) -m venv --clear $(VENV)
	@touch $@

$(INSTALLED): pyproject.toml | $(CREATED)
	@echo "Installing Rowcall into $(VENV)"
	@$(PIP) install --editable '.[http]'
	@touch $@

$(INSTALLED_TEST): pyproject.toml | $(CREATED)
	@echo "Installing Rowcall and the test tools into $(VENV)"
	@$(PIP) install --editable '.[test]'
	@touch $(INSTALLED) $@

$(INSTALLED_OLDEST): pyproject.toml tools/oldest_libraries
	@echo "Installing the oldest libraries into $(OLDEST)"
	@$(BOOTSTRAP) -m venv --clear $(OLDEST)
	@tools/oldest_libraries > $(OLDEST)/requirements.txt
	@$(OLDEST)/bin/python -m pip -qq --disable-pip-version-check install --requirement $(OLDEST)/requirements.txt
	@$(OLDEST)/bin/python -m pip -qq --disable-pip-version-check install --no-deps --editable .
	@touch $@

$(INSTALLED_BENCH): pyproject.toml | $(CREATED)
	@echo "Installing Rowcall and the benchmark tools into $(VENV)"
	@$(PIP) install --editable '.[bench,uvloop]'
	@touch $(INSTALLED) $@

# in a new checkout: else each process of pytest would compile all tests for itself
$(COMPILED): | $(INSTALLED_TEST) $(TRIED_MARIADB)
	@$(PYTHON) -m pytest --collect-only -q > /dev/null
	@touch $@

$(TRIED_MARIADB): | $(CREATED)
	@echo "Installing MariaDB for its tests, if this user may"
	@tools/install_programs mariadbd > $@

# Django's source has its tests, which its wheel does not; they also fit Django 5.2 with the package django-tasks
$(DJANGO_TESTS): | $(INSTALLED_TEST)
	@echo "Downloading Django's tests"
	@rm -rf $@.new && mkdir $@.new
	@$(PIP) download --no-deps --no-binary :all: --ignore-requires-python --dest $@.new 'django>=6,<7'
	@tar -xzf $@.new/*.tar.gz -C $@.new --strip-components=3 --wildcards '*/tests/tasks/*.py'
	@rm $@.new/*.tar.gz && mv $@.new $@
