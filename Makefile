# make demo, make test: both set up .venv on the first run and are quick afterwards.
PYTHON ?= python3
BIN := .venv/bin
EXTRAS := all,test,dev,docs

.PHONY: setup browser database demo test test-slow test-cluster fuzz kill load lint docs docs-check docs-serve dist coverage bench bench-all clean

setup: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
	@$(BIN)/dmn4 data fruit || echo "the demo's photographs could not be fetched: dmn4 demo will use drawn pictures"
	@touch $@

demo: setup
	$(BIN)/dmn4 demo

test: setup browser database
	$(BIN)/python -m pytest -n 2

# The page is tested in Debian's chromium: installed where that is possible, otherwise its tests are skipped.
browser:
	@command -v chromium > /dev/null || { command -v apt-get > /dev/null && [ "$$(id -u)" = 0 ] \
	  && apt-get -qq update && apt-get -qq -y install chromium > /dev/null 2>&1; } \
	  || echo "no chromium: the tests of the page in a browser are skipped"

# The store of several machines is tested in Debian's PostgreSQL, in the same way.
database:
	@ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1 || { command -v apt-get > /dev/null && [ "$$(id -u)" = 0 ] \
	  && apt-get -qq update && apt-get -qq -y install postgresql > /dev/null 2>&1; } \
	  || echo "no PostgreSQL: the tests of a store for several machines are skipped"

test-slow: setup browser database
	$(BIN)/python -m pytest -m slow

# Ray weighs as much as everything else together, so the set-up leaves it out.
test-cluster: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[ray]'
	$(BIN)/python -m pytest -m cluster

# Minutes; hours with CASES=10000. The first lines of tests/fuzz/run.py say what a finding is.
CASES := 200
fuzz: setup
	$(BIN)/python tests/fuzz/run.py --cases $(CASES)

# Commands killed at random and started again; the first lines of tests/kill/chaos.py say what a finding is.
KILLS := 100
kill: setup
	$(BIN)/python tests/kill/chaos.py --cases $(KILLS)

# Half an hour; the first lines of tests/load/run.py say what a finding is.
MINUTES := 30
load: setup database
	$(BIN)/python tests/load/run.py --minutes $(MINUTES)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/mypy

# The site, strictly: a broken link or an unknown name is an error, and the notebooks run.
docs: setup
	$(BIN)/sphinx-build -q -W --keep-going docs docs/_build/html
	@echo "docs/_build/html/index.html"

# The same without running the notebooks, whose cells the tests run: a quarter of a minute.
docs-check: setup
	$(BIN)/sphinx-build -q -W --keep-going -D nb_execution_mode=off -d docs/_build/check docs docs/_build/check/html

docs-serve: docs
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory docs/_build/html 8080

# Wheel and sdist: built, checked, then installed outside the checkout, where the demo's main job is run from them.
dist: setup
	rm -rf dist
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt build twine check-wheel-contents
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	$(BIN)/python tests/try_wheel.py dist/*.whl

# Branch coverage of the default tests; fails below the floor in pyproject.toml.
coverage: setup browser
	$(BIN)/python -m pytest -n 2 --cov --cov-report=html:build/coverage --cov-report=term:skip-covered

bench: setup
	$(BIN)/dmn4 benchmark heads

# Every benchmark as ratios to floors, in a file of this version, which the site plots: a quarter of an hour.
bench-all: setup
	$(BIN)/dmn4 benchmark all -o docs/results/speed/$$($(BIN)/python -c 'import dmn4; print(dmn4.__version__)').json

clean:
	rm -rf .venv build dist docs/_build docs/reference/generated *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
