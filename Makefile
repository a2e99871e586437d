# `make demo` and `make test` need Python 3.11 or newer, make and a package registry; nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install demo test lint bench soak lock

install: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $(STAMP)

demo: install
	$(BIN)/finbench demo

# Three parts of the tests run side by side, since they mostly wait: commands and servers as processes
# of their own; the gateway, caches and manifests; the rest.
COMMANDS := tests/test_docs.py tests/bench/cli tests/gateway/cli tests/gateway/server/test_supervisor.py
WITHIN := $(filter-out $(COMMANDS) tests/gateway/api/test_page.py tests/gateway/api/test_openapi.py, \
  $(wildcard tests/gateway/test_*.py tests/gateway/*/test_*.py tests/cache/test_*.py tests/manifests/test_*.py))
test: lint
	@logs=$$(mktemp -d); trap 'rm -rf $$logs' EXIT; \
	$(BIN)/pytest -m "not soak" $(COMMANDS) >$$logs/commands 2>&1 & commands=$$!; \
	$(BIN)/pytest -m "not soak" $(WITHIN) >$$logs/within 2>&1 & within=$$!; \
	$(BIN)/pytest -m "not soak" $(addprefix --ignore=,$(COMMANDS) $(WITHIN)); ended=$$?; \
	wait $$within || ended=1; wait $$commands || ended=1; \
	cat $$logs/within $$logs/commands; exit $$ended

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: install
	$(BIN)/finbench speed

soak: install
	$(BIN)/pytest -m soak -s

# Chooses the newest versions that pyproject.toml, or a list of clients that tests run, allows, with
# the hashes of all their files.
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-annotate --no-header --upgrade
lock: install
	$(COMPILE) --extra akshare --extra parquet --extra report --extra dev pyproject.toml \
	  --output-file requirements.lock
	for list in tests/clients/*.in; do $(COMPILE) $$list --output-file $${list%.in}.lock || exit; done
