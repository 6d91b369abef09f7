# windrow: `make` alone lists what there is.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
ARCHIVE := .venv/spark.jsa
# Processes that run tests, each with servers of its own; many tests wait more than they work.
WORKERS ?= 3

.DEFAULT_GOAL := help
.PHONY: help setup demo test quick-spark bench-peers check format docs lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(READY) ## virtual environment, pinned dependencies and broker jars, into .venv and the user's cache

# A virtual environment holds absolute paths: one that was moved, or has lost its Python, is set up anew.
ifneq "$(file <$(READY))$(if $(realpath $(BIN)/python),, gone)" "$(CURDIR)"
.PHONY: $(READY)
endif
$(READY): requirements.lock pyproject.toml tools/setup.py
	@$(PYTHON) tools/setup.py

demo: $(READY) ## the main job on embedded servers: an order service, the relay on Spark, a consumer, a verdict
	@exec $(BIN)/windrow demo $(ARGS)

quick-spark: $(ARCHIVE)

$(ARCHIVE): $(READY) tools/spark_archive.py
	-@$(BIN)/python tools/spark_archive.py $@

# Tests start hundreds of interpreters, which are to find compiled what the first one has read.
test: export PYTHONDONTWRITEBYTECODE :=
test: $(READY) $(ARCHIVE) ## the tests, on real servers that they start themselves (ARGS="-k word" picks some)
	@exec $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

bench-peers: $(READY) ## windrow against its peers, 35 minutes, into docs/reference (ARGS=--quick tries it out)
	@exec $(BIN)/python -m benchmarks.peers $(if $(findstring --quick,$(ARGS)),,--docs docs/reference) $(ARGS)

check: $(READY) ## lint, formatting, types and import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/unit/test_layers.py

format: $(READY) ## format the code and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY) ## the documentation as a site, in build/docs; every warning is an error
	$(BIN)/python -m sphinx --fresh-env --fail-on-warning --keep-going --quiet docs build/docs

lock: $(READY) ## pin the newest dependencies anew in requirements.lock
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --extra embedded --extra otel --group dev --group docs --universal --python-version 3.11 \
	  --upgrade --generate-hashes --no-emit-index-url --no-annotate --no-header --output-file requirements.lock --quiet

clean: ## remove the virtual environment and what the tools left
	rm -rf .venv build .mypy_cache .ruff_cache .pytest_cache .hypothesis artifacts spark-warehouse
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
