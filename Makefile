# Two commands: `make quickstart` shows it, `make test` proves it. Both install what is missing.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: help quickstart test check pytest wheel kubernetes rehearse clean

help: ## What there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable . --group dev
	@touch $@

quickstart: $(READY) ## A Slurm cluster of two virtual machines here, and a job on both nodes
	$(BIN)/runcrate-iac setup --yes
	$(BIN)/runcrate-iac up stacks/local-slurm/cluster.yaml --yes
	sh examples/slurm/quickstart.sh $(BIN)/runcrate-iac demo

test: $(READY) ## Every check: style, types, layers, all rings of tests, the wheel
	$(BIN)/runcrate-iac setup --yes
	$(MAKE) check pytest wheel

check: $(READY) ## Style, types, layers, file sizes
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/sizes.py

pytest: $(READY) ## All rings, the real virtual machines last
	$(BIN)/pytest -q -n auto
	$(BIN)/pytest -q -m hosts -n auto --dist loadfile

wheel: $(READY) ## The wheel installs by itself and carries its deploys, templates and stacks
	$(BIN)/python tests/wheel.py

kubernetes: $(READY) ## Its artifacts built from Go modules, and a cluster of two virtual machines: longer than all else together
	$(BIN)/runcrate-iac setup --yes
	$(BIN)/pytest -q -m kubernetes

rehearse: $(READY) ## 14,000 malformed specs, 2,000 schedules of faults, `up` ended in every way at every step boundary
	$(BIN)/pytest --hypothesis-profile=rehearse tests/spec/test_malformed_specs.py \
	    tests/spec/test_fault_schedules.py tests/spec/test_growth_schedules.py
	$(BIN)/python -m tests.rehearse

clean: ## Remove the virtual environment; caches and clusters stay
	rm -rf .venv
