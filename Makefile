# `make demo` and `make test` set up everything they need; `make help` lists the rest.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory
# Tests start hundreds of programs: where nothing is compiled for good, each of them compiles what it imports. What is
# written are `__pycache__` folders, which git ignores and `make clean` removes.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
# Stamps lie in the environment that they describe, so that deleting it deletes them.
BUILD_TOOLS := $(VENV)/.installed-build-tools
PACKAGES := $(VENV)/.installed-packages
ENGINE := $(VENV)/.installed-engine
COMMAND := $(VENV)/.installed-command

CARGO_MANIFEST := engine/Cargo.toml
ENGINE_SOURCES := engine/Cargo.toml engine/Cargo.lock engine/crates/python/pyproject.toml \
    $(shell find engine/crates -type d -o -name '*.rs' -o -name Cargo.toml)
# The binding has no Rust tests (it is tested from Python), and linking such tests would need libpython.
# Property tests draw the same cases in every run, so that a change is to blame for what fails. Any other number, or nothing,
# draws others: `make test PROPERTY_SEED=` looks for what nobody has seen.
PROPERTY_SEED ?= 1
CARGO_TEST := $(if $(PROPERTY_SEED),PROPTEST_RNG_SEED=$(PROPERTY_SEED)) cargo test --manifest-path $(CARGO_MANIFEST) --locked --quiet
WORKSPACE := --workspace --exclude tiertune-python

# Tests run on this many processes.
WORKERS ?= 2
export PROPERTY_SEED
# Extra words for pip-compile in `make lock`: --upgrade, --upgrade-package numpy
LOCK_FLAGS ?=

PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input
export PIP_ROOT_USER_ACTION := ignore
# The same Python for every build of the binding: otherwise clippy and the wheel rebuild each other's pyo3.
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python

# pip's own last lines are a stack of retries.
UNFETCHED := { echo "tiertune: packages could not be fetched. Is a package index within reach? See docs/troubleshooting.md" >&2; exit 1; }

##@ The two that matter

.PHONY: demo
demo: setup ## Record a graph computation, tune HeMem for it, prove the gain, write a report
	@$(BIN)/tiertune demo

.PHONY: test
test: ## The tests that need no special machine and no patience (Rust, then Python)
	@.ci/prerequisites >/dev/null
	# Rust tests are built while Python packages are fetched and unpacked.
	# Not by the variable of that name, which would make a dry run do all of this.
	make --jobs 2 --no-print-directory setup rust-tests
	echo "==> Rust tests"
	$(CARGO_TEST) $(WORKSPACE) -- --skip fidelity
	echo "==> Python tests"
	# A third of their time they wait for programs that they start, so there are two processes more.
	$(BIN)/python -m pytest -n $$(($(WORKERS) + 2)) --durations=12 -m 'not long' --ignore=tests/host

.PHONY: test-long
test-long: setup ## Tests of minutes each: fast mode against every single access, and the commands of the README
	@echo "==> Rust tests of fidelity"
	$(CARGO_TEST) --package tiertune-sim --test suite fidelity
	echo "==> long Python tests"
	$(BIN)/python -m pytest -n $(WORKERS) -o faulthandler_timeout=1000 -m long --ignore=tests/host

.PHONY: test-readme
test-readme: setup ## Of these, the commands of the README
	@echo "==> commands of the README"
	$(BIN)/python -m pytest -o faulthandler_timeout=1000 -m long tests/test_readme.py

.PHONY: rust-tests
rust-tests: ## Build the Rust tests without running them
	@$(CARGO_TEST) $(WORKSPACE) --no-run

##@ Setting up

.PHONY: setup
setup: $(ENGINE) $(COMMAND) ## Python environment, engine and command; quick when nothing changed
	@:

$(BUILD_TOOLS): requirements/build.lock
	@python=$$(.ci/prerequisites)
	if ! $(BIN)/python -c 'import pip' 2>/dev/null; then
	    echo "==> Python environment $(VENV) ($$($$python --version))"
	    rm -rf $(VENV)
	    $$python -m venv $(VENV)
	fi
	$(PIP) install --require-hashes -r $< || $(UNFETCHED)
	touch $@

$(PACKAGES): requirements/dev.lock $(BUILD_TOOLS)
	@.ci/prerequisites >/dev/null
	echo "==> $$(grep -c '==' $<) locked Python packages (the first time about a minute)"
	# uv takes a tenth of pip's time, but does not know pip's settings, such as a mirror or a certificate.
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --no-build-isolation -r $< \
	    || { echo "==> uv could not; pip tries"; $(PIP) install --require-hashes --no-build-isolation -r $<; } \
	    || $(UNFETCHED)
	# Compiled once, also where nothing is to be written later: only what the command imports, since all takes a minute.
	$(BIN)/python -c 'import distributed, jinja2, matplotlib.pyplot, mlflow, optuna, pandas, \
	    pyarrow.parquet, pydantic, pytest, rich.progress, scipy.stats, sklearn.ensemble, smac, typer'
	touch $@

$(ENGINE): $(ENGINE_SOURCES) $(PACKAGES)
	@.ci/prerequisites >/dev/null
	echo "==> engine (Rust, optimised; the first time about 2 minutes)"
	rm -rf $(VENV)/wheels
	$(BIN)/maturin build --quiet --release --locked --manifest-path engine/crates/python/Cargo.toml \
	    --interpreter $(BIN)/python --out $(VENV)/wheels 2>$(VENV)/engine.log || { cat $(VENV)/engine.log >&2; exit 1; }
	$(PIP) install --no-index --no-deps --force-reinstall $(VENV)/wheels/*.whl
	touch $@

$(COMMAND): pyproject.toml $(PACKAGES)
	@echo "==> the tiertune command"
	$(PIP) install --no-index --no-deps --no-build-isolation --editable .
	touch $@

# Static, so that they run in an empty container or an initial RAM disk as well. Only the last step is: what they are
# made of was built for the engine.
define static-binary
	@echo "==> $@ (Rust, optimised, static; the first time about a minute)"
	cargo rustc --quiet --release --locked --manifest-path $(CARGO_MANIFEST) -p $@ --bin $@ -- \
	    -C target-feature=+crt-static -C strip=debuginfo
	install -m 755 "$${CARGO_TARGET_DIR:-engine/target}/release/$@" $(BIN)/$@
endef

.PHONY: tierload
tierload: $(PACKAGES) ## The kernels and memory measurements as a command, which `tiertune calibrate` uses
	$(static-binary)

.PHONY: tierd
tierd: $(PACKAGES) ## The live daemon: policies on the memory nodes of this host
	$(static-binary)

.PHONY: lock
lock: $(ENGINE) ## Renew the Python locks (LOCK_FLAGS=--upgrade to move versions); the Rust one: cargo update
	@export CUSTOM_COMPILE_COMMAND='make lock'
	compile() {
	    $(BIN)/python -m piptools compile --quiet --generate-hashes --strip-extras --resolver backtracking \
	        --no-allow-unsafe --unsafe-package tiertune-engine --no-emit-index-url --no-emit-find-links \
	        --no-emit-options $(LOCK_FLAGS) "$$@" 2> >(grep -v 'may be rejected by pip' >&2)
	}
	# The engine is built here and never fetched, so its pin is left out, and with it pip-compile's warning.
	without_engine() { sed -i '/^# WARNING: The following packages were not pinned/,$$d' "$$1"; }
	$(BIN)/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' \
	    || { echo "locks are made with Python 3.11, the oldest one supported" >&2; exit 1; }
	compile --output-file requirements/build.lock requirements/build.in
	compile --output-file requirements/fuzz.lock requirements/fuzz.in
	compile --find-links $(VENV)/wheels --output-file requirements/run.lock pyproject.toml
	without_engine requirements/run.lock
	compile --find-links $(VENV)/wheels --extra dev --extra fleet --extra ui --constraint requirements/run.lock \
	    --constraint requirements/build.lock --output-file requirements/dev.lock pyproject.toml
	without_engine requirements/dev.lock

##@ Working on it

.PHONY: lint-tools
lint-tools:
	@.ci/prerequisites lint >/dev/null

.PHONY: lint
lint: lint-tools setup ## Format, lint and types, Python and Rust; changes nothing
	@$(MAKE) --jobs 2 --output-sync=target lint-python lint-rust

.PHONY: lint-python
lint-python: lint-tools setup ## That of Python
	@echo "==> ruff"
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	echo "==> mypy"
	$(BIN)/mypy --no-error-summary
	echo "==> ansible-lint"
	(cd playbooks && PATH="$(CURDIR)/$(BIN):$$PATH" LC_ALL=C.UTF-8 ansible-lint --offline -q)

.PHONY: lint-rust
lint-rust: lint-tools setup ## That of Rust
	@echo "==> cargo fmt"
	cargo fmt --manifest-path $(CARGO_MANIFEST) --all --check
	echo "==> cargo clippy"
	cargo clippy --manifest-path $(CARGO_MANIFEST) --workspace --all-targets --locked --quiet -- -D warnings

.PHONY: docs
docs: setup ## The manual as a site with its references, in build/docs/html
	@echo "==> docs"
	$(BIN)/python -m docs.pages build/docs

.PHONY: release
release: setup tierd tierload ## Wheels, source archive, static programs and bills of materials, checked, in dist/
	@echo "==> release"
	$(BIN)/python -m tests.release dist $(VENV)

.PHONY: format
format: lint-tools setup ## Format Python and Rust in place
	@$(BIN)/ruff check --quiet --fix-only .
	$(BIN)/ruff format --quiet .
	cargo fmt --manifest-path $(CARGO_MANIFEST) --all

.PHONY: golden
golden: setup ## Rewrite the golden files; their diff is the review
	@echo "==> golden files"
	export UPDATE_GOLDEN=1
	$(CARGO_TEST) $(WORKSPACE)
	$(BIN)/python -m pytest -n $(WORKERS) $$(grep -rl --include='test_*.py' UPDATE_GOLDEN tests)

.PHONY: bench
bench: setup tierd ## Measure the promises on this machine
	@$(BIN)/python -m tests.bench

# Such as --seeds 5: searches of each cell.
BENCH_FLAGS ?=
.PHONY: bench-nights
bench-nights: setup ## How late a slowdown is found over nights, by noise, and how often nothing is taken for one
	@$(BIN)/python -m tests.bench.nights

.PHONY: bench-modes
bench-modes: setup ## The public claims' scenes in small, in the fast mode and with every access executed (half an hour)
	@$(BIN)/python -m tests.bench.modes > /dev/null

.PHONY: bench-search
bench-search: setup ## Race ways of searching and write docs/search.md; goes on where it was stopped
	@$(BIN)/python -m tests.bench.search race $(BENCH_FLAGS)

# What `make gallery` gathers; one that is done is not run again.
GALLERY ?= compare compare-more compare-4kib
.PHONY: gallery
gallery: setup ## Tune every system in the gallery's contexts, test how far that carries, gather it in results/gallery
	@$(BIN)/tiertune transfer $(GALLERY) --seeds 5 --candidates 1
	$(BIN)/tiertune gallery $(GALLERY)

FUZZ_SECONDS ?= 120
.PHONY: fuzz
fuzz: setup ## Fuzz importers and the reader of profiles, FUZZ_SECONDS (120) for each of five targets
	@$(PIP) install --upgrade --require-hashes --target $(VENV)/fuzz -r requirements/fuzz.lock
	for target in perf-script damon masim profile metadata; do
	    echo "==> fuzz $$target"
	    PYTHONPATH=$(VENV)/fuzz $(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) $$target
	done

.PHONY: test-host
test-host: ## Tests on a real Linux host
	@if [ -n "$$(find tests/host -name 'test_*.py' 2>/dev/null | head -n 1)" ]; then
	    .ci/prerequisites host >/dev/null
	    # Not by the variable of that name, which would make a dry run do all of this.
	    make --no-print-directory setup tierd tierload
	    # A file at a time, in their order: the long ones are not the last. Half of it waits, so there are two processes more.
	    # What has no limit of its own has one that a machine as slow as an emulated one keeps.
	    $(BIN)/python -m pytest -n $$(($(WORKERS) + 2)) --durations=12 --dist loadfile --no-loadscope-reorder \
	        -o timeout=900 -o faulthandler_timeout=1600 -m 'not long' tests/host
	else
	    echo "test-host: there are no host tests yet; nothing was run"
	fi

.PHONY: test-host-long
test-host-long: setup tierd tierload ## Of these, campaigns in the emulated machine and the commands of docs/fleet.md (a quarter of an hour)
	@.ci/prerequisites host >/dev/null
	$(BIN)/python -m pytest -o timeout=2400 -o faulthandler_timeout=2400 -m long tests/host

.PHONY: clean
clean: ## Remove everything that was built (results/ stays)
	@rm -rf $(VENV) engine/target build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache
	find . -name __pycache__ -prune -exec rm -rf {} +
	rm -rf engine/python/*.egg-info

.PHONY: help
help: ## This list
	@awk 'BEGIN { FS = ":.*## " } \
	    /^##@/ { printf "\n%s\n", substr($$0, 5) } \
	    /^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
