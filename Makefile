# Everything starts here. Needs only make and Python 3.11 or newer: each target sets up what it uses, in .venv.
.DEFAULT_GOAL := help
.PHONY: help setup run demo test test-browser check check-slow check-postgres check-tools bench docs lock clean

VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv --quiet

# Name another interpreter with `make setup PYTHON=python3.13`, and another place for it with VENV=.venv-3.13;
# tests with `make test ARGS="-k cron"`.
PYTHON ?=
PYTHONS := $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 python)
ARGS ?=
# Tests start hundreds of programs, which would compile the sources each time where bytecode is not kept.
export PYTHONDONTWRITEBYTECODE :=
# Files in the order of the tree: sorted by their number of tests, those with few but long tests would come last, on one core.
PYTEST := $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder
FAST := not slow and not browser and not chaos and not bench and not needs
# The oldest PostgreSQL that is tested, and the folder of its programs; `make test` has the newest in $(VENV).
POSTGRES := 15
POSTGRES_BIN ?= /usr/lib/postgresql/$(POSTGRES)/bin
LOCK := $(UV) pip compile --universal --python-version 3.11 --generate-hashes --no-annotate \
	--custom-compile-command "make lock" $(ARGS)

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

setup: $(VENV)/.ready ## create .venv with chronos, chronosctl and the tools
	@:

run: setup ## the server on http://127.0.0.1:8080, data in ./chronos-data; more with ARGS="--listen …"
	@exec $(BIN)/chronos server $(ARGS)

demo: setup ## a server with invented jobs and 30 days of history, until Ctrl-C; more with ARGS="--listen …"
	@exec $(BIN)/chronos demo $(ARGS)

test: setup ## run the fast tests
	$(PYTEST) -m "$(FAST)" $(ARGS)

test-browser: $(VENV)/.browser ## drive the web UI with a real Chromium
	@if [ -z "$$(command -v chromium || command -v chromium-browser || command -v google-chrome)" ]; then \
	    echo "The browser tests need Chromium on PATH; install it: apt-get install chromium" >&2; exit 1; \
	fi
	$(BIN)/pytest -n 2 --dist loadfile -m browser tests/ui $(ARGS)

check: setup ## format, lint, types, layers, then the tests
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(MAKE) --no-print-directory test

check-slow: check-postgres check-tools ## the suites that need other tools; what the machine lacks is named and left out
	@:

check-postgres: setup ## the tests of the store and of retention on the oldest PostgreSQL that is tested
	@if [ -x "$(POSTGRES_BIN)/initdb" ]; then \
	    echo "The store on $$("$(POSTGRES_BIN)/postgres" --version)"; \
	    CHRONOS_TEST_POSTGRES_BIN="$(POSTGRES_BIN)" $(PYTEST) -m "$(FAST)" -k "not sqlite and not memory" tests/store $(ARGS); \
	else \
	    echo "Skipped: PostgreSQL $(POSTGRES) is not in $(POSTGRES_BIN);"; \
	    echo "install it (apt-get install postgresql-$(POSTGRES)), or say where it is with POSTGRES_BIN=FOLDER."; \
	fi

check-tools: setup ## the tests that need a program beside Python, such as node
	@$(PYTEST) -m needs $(ARGS) || [ $$? -eq 5 ] # which is what pytest says when it finds no test

bench: $(VENV)/.bench ## measure, beside other libraries
	$(BIN)/python -m bench $(ARGS)

docs: $(VENV)/.docs ## build the documentation site in ./site; broken links fail
	@$(BIN)/zensical build --clean --strict
	@if grep -rlE '<(script|link|img|iframe)[^>]* (src|href)="(https?:)?//' --include='*.html' site; then \
	    echo "These pages load something from another host." >&2; exit 1; \
	fi
	@echo "Read it with: $(BIN)/python -m http.server --bind 127.0.0.1 --directory site 8000"

lock: $(VENV)/.uv ## resolve requirements/*.txt again; newest versions with ARGS=--upgrade
	$(LOCK) --group bootstrap --output-file requirements/bootstrap.txt
	$(LOCK) --group dev pyproject.toml --output-file requirements/dev.txt
	$(LOCK) --group bench --constraint requirements/dev.txt --output-file requirements/bench.txt
	$(LOCK) --group browser --constraint requirements/dev.txt --output-file requirements/browser.txt
	$(LOCK) --group clients --output-file requirements/clients.txt
	$(LOCK) --group docs --constraint requirements/dev.txt --output-file requirements/docs.txt

clean: ## remove everything that was built, .venv included
	rm -rf $(VENV) .venv-* build dist site .cache bench/results.json .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

# Set-up in two steps, each with a stamp: a fresh environment that holds uv, then all else by uv.
$(VENV)/.uv:
	@python=; for p in $(PYTHONS); do \
	    if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then python=$$p; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	    echo "Chronos needs Python 3.11 or newer, and none of these is: $(PYTHONS)." >&2; \
	    echo "Install one, or say where it is: make setup PYTHON=/path/to/python3" >&2; \
	    exit 1; \
	fi; \
	echo "Setting up $(VENV) with $$($$python --version)"; \
	$$python -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
	@touch $@

$(VENV)/.ready: $(VENV)/.uv requirements/bootstrap.txt requirements/dev.txt pyproject.toml
	@$(UV) pip sync --compile-bytecode --python $(BIN)/python --require-hashes requirements/bootstrap.txt requirements/dev.txt
	@$(UV) pip install --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.bench: $(VENV)/.ready requirements/bench.txt
	@$(UV) pip install --python $(BIN)/python --require-hashes -r requirements/bench.txt
	@touch $@

$(VENV)/.browser: $(VENV)/.ready requirements/browser.txt
	@$(UV) pip install --python $(BIN)/python --require-hashes -r requirements/browser.txt
	@touch $@

$(VENV)/.docs: $(VENV)/.ready requirements/docs.txt
	@$(UV) pip install --python $(BIN)/python --require-hashes -r requirements/docs.txt
	@touch $@
