# gfxloop: everything a clone needs. Start with `make help`.
#
# Variables: PYTHON  the interpreter for .venv (default: the first of python3, python3.13, .12, .11 that is 3.11 or later)
#            ARGS    more arguments for gfxloop check, pytest or the benchmarks: make check ARGS="--target gfx942"
#            JOBS    parallel pytest workers (default 2)

VENV := .venv
BIN := $(VENV)/bin
LOCK := harness/subjects/vllm-requirements.txt
STAMP := $(VENV)/.gfxloop-installed
PYTHON ?=
JOBS ?= 2
ARGS ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup check test lint bench lock clean

help:
	@echo "make check   route the default vLLM release on every simulated target and write a report (no GPU needed)"
	@echo "make test    lint, type-check and test the harness itself"
	@echo "make lint    ruff, mypy and the layer contracts only"
	@echo "make bench   the benchmarks, as ratios"
	@echo "make setup   make or refresh .venv (every other target does this first, when it is needed)"
	@echo "make lock    resolve the pinned list of vLLM's dependencies again"
	@echo "make clean   remove .venv and the caches"

setup: $(STAMP)

# No stamp means a fresh clone or a set-up that was cut off: start from nothing. A stamp that is older than what it was
# made from is removed first, for the same reason, and the environment is brought up to date in place.
$(STAMP): pyproject.toml $(LOCK)
	@set -e; \
	if [ ! -e $@ ]; then \
	    python=; \
	    for candidate in $(or $(PYTHON),python3 python3.13 python3.12 python3.11); do \
	        if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$candidate; break; fi; \
	    done; \
	    if [ -z "$$python" ]; then \
	        echo "make setup: no Python 3.11 or later (tried: $(or $(PYTHON),python3 python3.13 python3.12 python3.11))." \
	             "Install one, or name it: make setup PYTHON=/path/to/python3.11" >&2; exit 1; \
	    fi; \
	    echo "setup: making $(VENV) with $$("$$python" -V)"; \
	    rm -rf $(VENV); "$$python" -m venv $(VENV); \
	fi; \
	rm -f $@; \
	echo "setup: installing torch, triton, what vLLM imports, and the harness; the first time takes minutes"; \
	$(BIN)/python -m pip install -qq --disable-pip-version-check -r $(LOCK) -e '.[dev]'; \
	touch $@; \
	echo "setup: done"

# gfxloop prints the verdict line and the report's path, and exits 1 for findings; make reports any failure as its own 2.
check: $(STAMP)
	@$(BIN)/gfxloop check $(ARGS)

lint: $(STAMP)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy --no-error-summary
	@report=$$($(BIN)/lint-imports 2>&1) || { echo "$$report"; exit 1; }

test: lint
	@$(BIN)/python -m pytest -n $(JOBS) tests $(ARGS)

bench: $(STAMP)
	@$(BIN)/python -m benchmarks $(ARGS)

# In an environment of its own, so that nothing installed here gets into the list. The head of the list is kept.
lock: $(STAMP)
	@set -e; new=$$(mktemp -d); trap 'rm -rf "$$new"' EXIT; \
	echo "lock: resolving the vllm extra of pyproject.toml"; \
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["vllm"], sep="\n")' > "$$new/in"; \
	$(BIN)/python -m venv "$$new/venv"; \
	"$$new/venv/bin/pip" install -qq --disable-pip-version-check -r "$$new/in"; \
	{ sed -n '/^#/p' $(LOCK); "$$new/venv/bin/pip" freeze --all --exclude pip | sed 's/+cpu$$//'; } > "$$new/out"; \
	cp "$$new/out" $(LOCK); echo "lock: wrote $(LOCK)"

clean:
	@rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
