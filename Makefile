# Two commands for a newcomer: `make run` and `make test`. Both set everything up first.
BIN := .venv/bin
STAMP := .venv/.ready

.PHONY: run tour test check fmt bench soak docs openapi lock clean

run: $(STAMP)  ## the service at http://127.0.0.1:8787, with schedules that fire within seconds
	@$(BIN)/python examples/service.py

tour: $(STAMP)  ## a tour of cron texts and simulations in the terminal
	@$(BIN)/python examples/tour.py

test: check docs $(STAMP)  ## everything that must hold, in a few minutes
	$(BIN)/python -m pytest -n auto -m "not soak"

check: $(STAMP)  ## formatter, linter, strict types, tidy rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_tidy.py

docs: $(STAMP)  ## the documentation site, in build/docs; a warning is an error
	$(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs

fmt: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)  ## ratios against peers measured in the same run
	$(BIN)/python -m benchmarks

soak: $(STAMP)  ## the long campaigns: every zone, every transition
	$(BIN)/python -m pytest -n auto -m soak --timeout 7200

openapi: $(STAMP)  ## writes docs/reference/openapi.json anew
	$(BIN)/python scripts/openapi.py

lock: $(STAMP)  ## re-resolve the dependency groups into requirements/dev.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate \
	  --group dev --output-file requirements/dev.lock --upgrade

clean:
	rm -rf .venv build

$(STAMP): scripts/bootstrap.sh requirements/dev.lock pyproject.toml
	@sh scripts/bootstrap.sh
