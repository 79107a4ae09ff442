# make demo, make test: both set up .venv on the first run and are quick afterwards.
PYTHON ?= python3
BIN := .venv/bin
EXTRAS := all,test,dev

.PHONY: setup browser demo test test-slow lint bench clean

setup: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
	@$(BIN)/dmn4 data fruit || echo "the demo's photographs could not be fetched: dmn4 demo will use drawn pictures"
	@touch $@

demo: setup
	$(BIN)/dmn4 demo

test: setup browser
	$(BIN)/python -m pytest -n 2

# The page is tested in Debian's chromium: installed where that is possible, otherwise its tests are skipped.
browser:
	@command -v chromium > /dev/null || { command -v apt-get > /dev/null && [ "$$(id -u)" = 0 ] \
	  && apt-get -qq update && apt-get -qq -y install chromium > /dev/null 2>&1; } \
	  || echo "no chromium: the tests of the page in a browser are skipped"

test-slow: setup browser
	$(BIN)/python -m pytest -m slow

lint: setup
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: setup
	$(BIN)/dmn4 benchmark heads

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
