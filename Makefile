# Everything runs in .venv, which the first target that needs it makes.
PYTHON ?= python3
BIN := .venv/bin
# Nothing is compiled at installation (below): where an environment forbids to keep what was
# compiled at import, each of the many processes of the tests does it all again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help lock demo test quick check lint types docs oldest newest dist format clean
help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

SCRIPTS := $(wildcard src/qlrstudy/report/assets/*.js)
# Python compiles what is imported, when it is; all of it takes pip two minutes.
# What is in a lock installs by its checksum or not at all; see .ci/lock, and why not torch.
PIP := $(BIN)/python -m pip
LOCKED = $(PIP) install --quiet --no-compile --require-hashes --no-deps --only-binary :all: --requirement
TORCH = $(PIP) install --quiet --no-compile --constraint constraints.txt torch
ITSELF = $(PIP) install --quiet --no-deps --no-build-isolation --editable . && $(PIP) check

.venv/installed: pyproject.toml constraints.txt requirements.lock
	$(PYTHON) -m venv .venv
	$(LOCKED) requirements.lock
	$(TORCH)
	$(ITSELF)
	touch .venv/study $@

# Without what tests need: torch, its clients, a browser's driver, node.
.venv/study: pyproject.toml requirements-study.lock
	$(PYTHON) -m venv .venv
	$(LOCKED) requirements-study.lock
	$(ITSELF)
	touch $@

demo: .venv/study ## AdamQLR against Adam in two minutes: demo/report/index.html
	$(BIN)/qlrstudy study demo --store demo/runs
	$(BIN)/qlrstudy report demo/runs --output demo/report

test: .venv/installed ## run all tests
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal

# A core of all tests, by files, so that what the others import is never loaded: the method,
# its settings and states, what is refused, the disk, the command line, a report's numbers.
# CONTRIBUTING says what may be here.
QUICK := $(patsubst %,tests/library/test_%.py, averaging imports jax_arguments rules step \
	torch_arguments torch_bundles torch_curvature torch_directions torch_memory \
	torch_refusals torch_rule) \
	$(patsubst %,tests/study/test_%.py, archive command_line data_files data_formats \
	data_splits imports progress report_bars report_charts report_groups report_ranking \
	report_statistics report_tables store studies)

quick: .venv/installed ## run the core of the tests, in less than a minute
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m 'not slow' $(QUICK)

check: lint types test ## format, lint, types, then all tests

lint: .venv/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/oxfmt --check $(SCRIPTS)
	$(BIN)/oxlint --deny-warnings --allow no-unused-vars $(SCRIPTS)

types: .venv/installed
	$(BIN)/pyright

docs: .venv/installed ## build the site, with every link checked: site/index.html
	PYTHONPATH=website $(BIN)/zensical build --clean --strict

# These versions get all of the library's tests but the slow ones, far more than `quick` has:
# whether a version works shows in what compiles and trains. They need these packages.
TESTERS := pytest pytest-xdist hypothesis
STUDY_TESTERS := oxlint playwright 'ray[tune]'

oldest: ## the library's tests with the oldest versions that it declares
	$(PYTHON) -m venv --clear .venv-oldest
	$(PYTHON) .ci/oldest.py jax torch > .venv-oldest/constraints.txt
	.venv-oldest/bin/python -m pip install --quiet --constraint .venv-oldest/constraints.txt \
		--editable '.[jax,torch]' $(TESTERS)
	.venv-oldest/bin/python -m pytest -m 'not slow' tests/library

newest: ## the tests with the newest JAX, optax and torch, and so without K-FAC
	$(PYTHON) -m venv --clear .venv-newest
	.venv-newest/bin/python -m pip install --quiet --upgrade \
		--editable '.[jax,torch,study]' $(TESTERS) $(STUDY_TESTERS)
	.venv-newest/bin/python -m pytest -m 'not slow' tests/library tests/study

dist: ## wheel and sdist, checked, and each extra tried in a fresh environment
	PYTHON=$(PYTHON) .ci/dist

lock: ## write the locks anew, after a change of pyproject.toml or constraints.txt
	PYTHON=$(PYTHON) .ci/lock

format: .venv/installed ## rewrite the code in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/oxfmt $(SCRIPTS)

clean: ## remove what the targets made
	rm -rf .venv .venv-oldest .venv-newest demo dist site .cache .pytest_cache .ruff_cache
