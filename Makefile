# Every target installs its requirements: `.venv` from constraints.txt, system programs with apt-get.
# A fresh machine needs Python 3.11 or later and make.

PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
WORKERS ?= 2

export PYTHONDONTWRITEBYTECODE = 1
export WORKERS

.PHONY: demo test test-long soak bench lint types layers format setup programs java versitygw clean

demo: $(READY)
	@tools/need java
	$(BIN)/python -m bench.demo

# The steps, budgets and summary of each tier: tools/tiers.py.
test: programs
	$(BIN)/python -m tools.tiers fast

test-long: programs java versitygw
	$(BIN)/python -m tools.tiers long

soak: programs java versitygw
	$(BIN)/python -m tools.tiers soak

bench: $(READY) java
	$(BIN)/python -m bench

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@if command -v uv >/dev/null 2>&1; then \
	  test -x $(BIN)/python || uv venv -q --python $(PYTHON) $(VENV); \
	  VIRTUAL_ENV=$(VENV) uv pip install -q -c constraints.txt -e '.[dev]'; \
	else \
	  test -x $(BIN)/python || $(PYTHON) -m venv $(VENV); \
	  $(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null; \
	  $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'; \
	fi
	@touch $@

programs: $(READY)
	@tools/need kcat
	@tools/need java

java: $(READY)
	@tools/need java
	@tools/need mvn
	@$(BIN)/python -m tools.kafka_jars

versitygw: $(READY)
	@$(BIN)/python -m tools.versitygw

clean:
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
