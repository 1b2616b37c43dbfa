# Two commands for a newcomer: `make run` and `make test`. Both set everything up first.
# VENV=.venv-3.13 PYTHON=python3.13 make test: the same with another interpreter.
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
RUN_STAMP := $(VENV)/.ready-run
# Hundreds of processes start in the tests: they read compiled modules, whatever the shell says.
export PYTHONDONTWRITEBYTECODE :=
LOCK := uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate

.PHONY: run tour test quick versions check fmt bench peers soak docs openapi pictures lock clean

run: $(RUN_STAMP)  ## the service at http://127.0.0.1:8787, with schedules that fire within seconds
	@$(BIN)/python examples/service.py

tour: $(RUN_STAMP)  ## a tour of cron texts and simulations in the terminal
	@$(BIN)/python examples/tour.py

# Servers and browsers wait, so there are two workers more than cores. The tidy rules are part of `check`.
test: $(STAMP)  ## everything that must hold, in about eight minutes
	@$(MAKE) --no-print-directory -j2 check docs
	$(BIN)/python -m pytest -n $(shell expr $$(nproc) + 2) --dist worksteal -m "not soak" --ignore tests/test_tidy.py --ignore tests/test_tracked_files.py

quick: $(STAMP)  ## in under a minute: the core, the engine, the memory store, the tidy rules
	$(BIN)/python -m pytest -n auto -m "not soak" tests/core tests/runtime tests/stores/test_memory.py tests/test_tidy.py \
		tests/test_tracked_files.py

versions:  ## `make test` with every Python from 3.11 on that is on PATH, each in its own .venv-3.x
	@sh scripts/versions.sh

check: $(STAMP)  ## formatter, linter, strict types, tidy rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_tidy.py tests/test_tracked_files.py

docs: $(STAMP)  ## the documentation site, in build/docs; a warning is an error
	$(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs

fmt: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)  ## ratios against peers measured in the same run
	$(BIN)/python -m benchmarks

peers: $(STAMP)  ## build/peers: peers of the section `postgres`, which contradict the lock
	$(BIN)/python -m venv build/peers
	build/peers/bin/python -m pip install --quiet -r benchmarks/peers.txt

soak: $(STAMP)  ## the long campaigns: every zone, every transition
	$(BIN)/python -m pytest -n auto -m soak --timeout 7200

pictures: $(STAMP)  ## writes the pictures of the README and the docs anew, with a browser
	$(BIN)/python scripts/pictures.py

openapi: $(STAMP)  ## writes the generated parts of docs/reference anew: openapi.json, cli.md, metrics.md
	$(BIN)/python scripts/openapi.py
	$(BIN)/python scripts/cli_help.py
	$(BIN)/python scripts/metrics.py

lock: $(STAMP)  ## resolve the dependencies of pyproject.toml into both locks again
	$(BIN)/$(LOCK) --group dev --output-file requirements/dev.lock --upgrade
	$(BIN)/$(LOCK) pyproject.toml --extra cli --extra fleet --extra service --group build \
	  --constraint requirements/dev.lock --output-file requirements/run.lock --upgrade

clean:
	rm -rf .venv .venv-* build

$(STAMP): scripts/bootstrap.sh requirements/dev.lock pyproject.toml
	@VENV=$(VENV) sh scripts/bootstrap.sh

$(RUN_STAMP): scripts/bootstrap.sh requirements/run.lock pyproject.toml
	@VENV=$(VENV) sh scripts/bootstrap.sh run
