# `make demo` and `make test` need Python 3.11 or newer, make and a package registry; nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install demo test tests lint bench soak lock

install: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $(STAMP)

demo: install
	$(BIN)/finbench demo

# Tests start hundreds of processes, and each starts in half the time if its modules are compiled.
unexport PYTHONDONTWRITEBYTECODE

# Lint runs beside the tests: without its cache, mypy takes one core for half a minute.
test: install
	$(MAKE) --jobs 2 lint tests

# Tests often wait, so there is one process more than cores.
PROCESSES ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
tests: install
	$(BIN)/pytest --numprocesses $(PROCESSES) --dist worksteal -m "not soak"

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: install
	$(BIN)/finbench speed

soak: install
	$(BIN)/pytest -m soak -s
	$(BIN)/pytest -m "hypothesis and not soak" --hypothesis-profile soak

# Chooses the newest versions that pyproject.toml, or a list of clients that tests run, allows, with
# the hashes of all their files.
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-annotate --no-header --upgrade
lock: install
	$(COMPILE) --extra akshare --extra finova --extra mcp --extra parquet --extra ray --extra redis \
	  --extra dev pyproject.toml --output-file requirements.lock
	for list in tests/clients/*.in tests/docs/deployment/schemas.in; do \
	  $(COMPILE) $$list --output-file $${list%.in}.lock || exit; done
	$(COMPILE) --no-deps --python-version 3.12 tests/environments/harbor.in \
	  --output-file tests/environments/harbor.lock
	for list in agents inspect openenv verifiers; do \
	  $(COMPILE) --extra akshare --extra finova pyproject.toml tests/environments/$$list.in \
	    --output-file tests/environments/$$list.lock || exit; done
	$(COMPILE) --override tests/training/overrides.in pyproject.toml tests/training/requirements.in \
	  --output-file tests/training/requirements.lock
