# For maintainers. Readers need only ./lab.

VENV := "$(or $(LAB_HOME),.lab)/venv"
PYTHON := $(VENV)/bin/python

.DEFAULT_GOAL := help
.PHONY: help ready check lint test notebooks pages record matrix soak bench lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

ready: # the launcher's environment with the tests' and the linters' parts
	@LAB_PARTS=house ./lab test --version

check: lint test ## all that must be clean before a commit

lint: ready ## style and types of Python and SQL; the lock file in step with pyproject.toml
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(PYTHON) scripts/lint_sql.py lint sql
	$(PYTHON) scripts/lock.py --check

test: ## the tests, all of them
	./lab test --all

notebooks: ready ## run the notebooks of both languages again from their text, and keep the outputs and the picture; one: NB=06
	$(PYTHON) -P -m lab.notebook.build $(NB)

pages: ## all that is written from other files: scripts for two terminals, numbered SQL, pages
	./lab generate

record: ## record transcripts, psql scripts and observations, after showing what changed
	./lab record

matrix: ## the claims and transcripts on every server version found here
	./lab matrix

soak: ## every scenario 200 times, on idle and on busy cores; many workers killed at random
	./lab soak
	./lab soak --busy
	./lab drill random_kills --documents 10000 --workers 10

bench: ## documents a second against pgbench, what each guarantee costs, the lab's own running times
	./lab bench

lock: ready ## write requirements.lock from pyproject.toml
	$(PYTHON) scripts/lock.py

clean: ## stop the lab's server and remove all that was made here
	[ ! -e $(PYTHON) ] || ./lab down
	rm -rf .lab .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
