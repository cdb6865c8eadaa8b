# Recloser's commands. `make` alone lists them; each works on a fresh clone.
PYTHON ?= python3
VENV := .venv/bin
MANAGE := $(VENV)/python manage.py
PYTEST_ARGS ?= -q -n auto --maxprocesses 4 --dist loadfile
# Tests in a process of their own: a database as migrated, no transactions beside theirs; a browser, whose loop is in the way.
APART := tests/controlplane/services/test_partitions.py tests/controlplane/rollups tests/e2e
# Modules that the benches share.
BENCH_PARTS := __init__ bare sdk_others sdk_tools seed stage vendor
COMPILE := $(VENV)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header

.DEFAULT_GOAL := help
.PHONY: bench help setup setup-dev up test demo screenshots check lint types format docs lock clean reset

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Make .venv with what running needs (up, test and demo do it by themselves)
	@$(PYTHON) deploy/install.py

setup-dev: ## Make .venv with what the tests and linters need too
	@$(PYTHON) deploy/install.py --dev

up: setup ## Run everything on this machine until Ctrl-C: servers, web, scheduler, worker
	@exec $(VENV)/python -m deploy.local up

test: check ## Run the linters and all tests, those in a browser in a process of their own
	@$(VENV)/python -m pytest -q $(APART)
	@$(VENV)/python -m pytest $(PYTEST_ARGS) $(addprefix --ignore=,$(APART))

demo: setup ## Show an outage from beginning to end on recorded runs (CHECK=1: headless, as JSON)
	@exec $(VENV)/python -m demo $(if $(CHECK),--check)

bench: setup-dev ## Print what things cost beside their bare counterparts (minutes; figures, no verdict)
	@$(VENV)/uv pip install --quiet -r bench/requirements.txt
	@for script in $(filter-out $(BENCH_PARTS),$(basename $(notdir $(wildcard bench/*.py)))); do \
		echo "== bench.$$script"; $(VENV)/python -m bench.$$script || exit 1; done

screenshots: setup-dev ## Take every page light, dark and on a phone, from a night made up (OUT=folder)
	@RECLOSER_SHOTS="$(if $(OUT),$(OUT),docs/images/pages)" $(VENV)/python -m pytest -q tests/e2e/test_screenshots.py

check: lint types ## Run the linters, the type checker, the import contracts and the migrations check
	@$(VENV)/lint-imports --no-cache > /dev/null || $(VENV)/lint-imports
	@$(VENV)/python -m deploy.local.servers run $(MANAGE) makemigrations --check --dry-run

lint: setup-dev ## Run ruff, on style and on form
	@$(VENV)/ruff check .
	@$(VENV)/ruff format --check .

types: setup-dev ## Run mypy
	@$(VENV)/mypy

format: setup-dev ## Put the code into form
	@$(VENV)/ruff check --fix-only --quiet .
	@$(VENV)/ruff format .

docs: setup-dev ## Build the documentation into site/ (strict: a warning fails it)
	@$(VENV)/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env --jobs auto docs site
	@echo "recloser: open site/index.html"

lock: setup-dev ## Resolve the *.in files anew (UPGRADE=1: take the newest versions)
	@$(COMPILE) $(if $(UPGRADE),--upgrade) requirements-dev.in -o requirements-dev.lock
	@for name in requirements requirements-setup requirements-embedded requirements-docs; do \
		$(COMPILE) $(if $(UPGRADE),--upgrade) -c requirements-dev.lock $$name.in -o $$name.lock || exit 1; done

clean: ## Remove what can be made again: .venv and caches, not the data
	@rm -rf .venv site staticfiles .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

reset: setup ## Remove this machine's data: circuits, runs, users, keys and secrets (asks first; YES=1 does not)
	@$(VENV)/python -m deploy.local.reset $(if $(YES),--yes)
