# Everything runs in .venv, which the first target that needs it makes.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help demo test quick check docs format clean
help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: .venv/installed ## a small study, and its report: demo/report/index.html
	$(BIN)/qlrstudy study demo --store demo/runs
	$(BIN)/qlrstudy report demo/runs --output demo/report

test: .venv/installed ## run all tests
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal

quick: .venv/installed ## run the tests that take a minute
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m 'not slow'

check: .venv/installed ## format, lint, types, then all tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(MAKE) test

docs: .venv/installed ## build the site, with every link checked: site/index.html
	PYTHONPATH=website $(BIN)/zensical build --clean --strict

format: .venv/installed ## rewrite the code in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove what the targets made
	rm -rf .venv demo site .cache .pytest_cache .ruff_cache
