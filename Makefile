# `make run` starts the broker, `make test` checks everything; both set up what they need in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find src -name '*.py' -o -name '*.pxd') setup.py pyproject.toml
# The web page, which is built into the package; without Node there is none, and the broker runs.
PAGE := $(VENV)/.page
PAGE_SOURCES := $(shell find web -type f -not -path '*/node_modules/*' -not -path '*/tests/*')
PLAIN_SUITES := tests/wire tests/broker tests/protocol tests/store

.PHONY: run test quick build check page-check page-test bench fuzz model soak coverage packages lock clean

run: $(VENV)/.installed
	@echo "Connect with amqp://guest:guest@127.0.0.1:5672/ (pika, aio-pika, kombu, any RabbitMQ client). Ctrl-C stops it."
	@$(BIN)/leveret

build: $(VENV)/.installed

test: packages $(VENV)/.tools $(VENV)/.installed check page-check page-test
	$(BIN)/python -m pytest --timeout 900 tests
	LEVERET_PURE=1 $(BIN)/python -m pytest --timeout 900 $(PLAIN_SUITES)

# Between commits: what is quick and finds most.
quick: $(VENV)/.tools $(VENV)/.installed check
	$(BIN)/python -m pytest -q -x $(PLAIN_SUITES) tests/structure
	LEVERET_PURE=1 $(BIN)/python -m pytest -q -x tests/store tests/broker

check: $(VENV)/.tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/generate_spec.py --check

# The page's own lint, types and unit tests, and what an operator does with it in a browser.
page-check: $(PAGE)
	cd web && npm run --silent check && npm run --silent test

page-test: packages $(VENV)/.tools $(VENV)/.installed
	cd web && npm run --silent test:browser

bench: packages $(VENV)/.tools $(VENV)/.installed
	$(BIN)/python tests/bench/compare.py --plain --record $(BENCH)
	$(BIN)/python tests/bench/depth.py
	$(BIN)/python tests/bench/work.py
	$(BIN)/python tests/bench/management.py

fuzz: $(VENV)/.tools $(VENV)/.installed
	FUZZ_FRAMES=5000000 $(BIN)/python -m pytest -q tests/properties/test_fuzz.py

model: $(VENV)/.tools $(VENV)/.installed
	MODEL_STEPS=1000000 $(BIN)/python -m pytest -q tests/properties/test_broker_model.py

soak: packages $(VENV)/.tools $(VENV)/.installed
	SOAK_SEEDS=300 $(BIN)/python -m pytest -q tests/store/test_power_cut.py tests/store/test_page_transfer.py tests/store/test_backup.py
	SOAK_KILLS=500 SOAK_CUTS=300 SOAK_FAULTS=10 SOAK_SPACE=20000000000 $(BIN)/python -m pytest -q tests/crash
	SOAK_TAKEOVERS=300 $(BIN)/python -m pytest -q tests/cluster/test_rivals.py
	SOAK_FAIRNESS=5 $(BIN)/python -m pytest -q tests/bench/soak_fairness.py

coverage: $(VENV)/.tools $(VENV)/.installed
	LEVERET_PURE=1 $(BIN)/python -m coverage run --source $$($(BIN)/python -c 'import leveret; print(leveret.__path__[0])') -m pytest -q $(PLAIN_SUITES)
	$(BIN)/python -m coverage report --skip-covered --show-missing

$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip setuptools Cython
	touch $@

# Without isolation, so that only what has changed is compiled again.
$(VENV)/.installed: $(VENV)/.made $(SOURCES) $(PAGE)
	@echo "Building Leveret (a minute the first time)"
	$(BIN)/python -m pip install --quiet --no-build-isolation '.[fast]' || $(BIN)/python -m pip install --quiet --no-build-isolation .
	$(BIN)/python tools/built.py
	touch $@

$(PAGE): $(VENV)/.made $(PAGE_SOURCES)
	@echo "Building the web page"
	$(BIN)/python tools/page.py
	touch $@

# Before Leveret is installed, which then is built with, and runs on, what the lock names.
$(VENV)/.tools: $(VENV)/.made requirements-dev.lock
	@echo "Installing what the tests need, as requirements-dev.lock has it"
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-dev.lock
	touch $@

# Debian's, for the tests that compare with RabbitMQ or cut the power; says what it installs.
packages: $(VENV)/.made
	@$(BIN)/python tests/debian.py

# INDEX is the address of a package index: make lock INDEX=https://…/simple
lock: $(VENV)/.tools
	$(BIN)/python tools/lock.py $(INDEX)

clean:
	rm -rf $(VENV) build src/*.egg-info src/leveret/management/page web/node_modules .mypy_cache .ruff_cache .pytest_cache
