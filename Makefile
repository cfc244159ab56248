# The front door: every target sets up what it needs on a bare machine with Python 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready
# CONSTRAINTS=/dev/null installs the newest of everything.
CONSTRAINTS ?= constraints.txt
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS)

unexport PYTHONDONTWRITEBYTECODE  # every process of a test would compile the package again

.PHONY: install setup demo test test-slow test-docs check site slides format build bump release-check licences bench chaos fuzz clean

# The package alone, to use it.
install: $(INSTALLED)

# Every extra and every tool that the tests and checks need, too.
setup: $(READY)

# An environment that was left unfinished is made anew.
.DELETE_ON_ERROR:
NEEDED := needs Python 3.11 or newer: make install PYTHON=python3.12

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "warmstart $(NEEDED)")'
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e .
	touch $@

$(READY): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[dev]"
	touch $(INSTALLED) $@

demo: install
	rm -rf demo
	$(BIN)/warmstart demo -o demo

# Threads that wait must sleep: the processes of the tests share the cores.
test: setup
	OMP_WAIT_POLICY=passive $(BIN)/python -m pytest -m "not docs and not slow" -n auto --dist worksteal

# Clusters, several processes, whole trainings, exported graphs, browsers.
test-slow: setup
	OMP_WAIT_POLICY=passive $(BIN)/python -m pytest -m "slow and not docs" -n auto --dist worksteal

# Runs every command of the labs, their notebooks, and the guides on tiny settings, and a training on
# two hosts; takes minutes.
test-docs: setup
	$(BIN)/python -m pytest -m docs tests/system

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --disable-error-code=arg-type benchmarks
	$(BIN)/lint-imports
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The documentation as pages; for its search: python -m http.server -d build/site
site: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# website/slides.md as one file for a browser, which needs no network.
slides: setup
	$(BIN)/python website/slides.py build/slides.html

format: setup
	$(BIN)/python .ci/stub.py
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The archive of the sources, and the wheel, which is then used in an environment of its own.
build: setup
	rm -rf build/lib dist
	$(BIN)/python -m build --outdir dist
	PYTHON=$(PYTHON) .ci/wheel

# What RELEASING.md asks for: make bump VERSION=0.2.0, commit, make release-check.
bump:
	$(PYTHON) .ci/release.py bump $(VERSION)

release-check:
	$(PYTHON) .ci/release.py check
	$(MAKE) check test test-slow test-docs build

# The licence of every package that `make install` brings, as docs/licences.md lists them.
licences:
	rm -rf build/licences
	$(PYTHON) -m venv build/licences/used
	$(PYTHON) -m venv build/licences/tool
	build/licences/used/bin/pip install --quiet -c $(CONSTRAINTS) .
	build/licences/tool/bin/pip install --quiet "pip-licenses<6"
	$(PYTHON) .ci/licences.py build/licences > docs/licences.md

# On idle cores, ten minutes: ratios to peers, compared with the committed ones.
bench: setup
	$(BIN)/python benchmarks/guard.py

# Kills and races over every command that writes a folder, and kills of single processes of a shared
# training and of their launcher; the last line counts the good ends.
KILLS ?= 110
RACES ?= 190
RANKS ?= 100
JOBS ?= 1
chaos: setup
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive $(BIN)/python benchmarks/chaos.py \
		--kills $(KILLS) --races $(RACES) --ranks $(RANKS) --jobs $(JOBS)

# At least 100,000 made-up files against every parser, then 200,000 tampered JSON files and 20,000
# whole commands on them; SEED=N repeats a session.
SEED ?= 0
fuzz: setup
	FUZZ_EXAMPLES=3500 $(BIN)/python -m pytest tests/fuzz -n auto --hypothesis-seed=$(SEED)
	OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz/tampering.py --seed $(SEED)
	OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz/options.py --seed $(SEED)

clean:
	rm -rf $(VENV) demo build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
