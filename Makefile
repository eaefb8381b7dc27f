# The project's commands. `make` alone lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest
# What builds the site has an environment of its own: whoever writes documentation needs nothing else.
SITE := build/site-venv
# Processes that share the tests, each with servers of its own of some 3 GB where there is a stack, and one of low priority
# that takes what needs no servers while these wait. A Kubernetes that the user names is everybody's, so it takes one.
WORKERS ?= $(if $(RACKSPAN_KUBECONFIG),1,3)
SHARED := --numprocesses=$(shell expr $(WORKERS) + 1) --filler --no-loadscope-reorder
# Tests without servers wait for time-outs as well: two processes for each processor.
SHARED_FAST := --numprocesses=$(shell expr 2 \* `getconf _NPROCESSORS_ONLN`) --no-loadscope-reorder
# What needs neither a control plane nor a Kafka, what does, what takes real pods and therefore root, which is `make e2e`
# only, what takes the controllers of others, which are long to build: `make gitops` only, what takes the Git history:
# `make upgrade` only, what the programs of `dev/` and `benchmarks/` promise: `make test-tools` only, and what takes other
# readers of histories, or botocore: `make test-readers` and `make test-msk` only.
FAST_TESTS := tests/unit tests/property
POD_TESTS := tests/e2e
GITOPS_TESTS := tests/gitops
UPGRADE_TESTS := tests/upgrade
TOOL_TESTS := tests/tools
READER_TESTS := tests/readers
MSK_TESTS := tests/msk
STACK_TESTS := $(filter-out $(FAST_TESTS) $(POD_TESTS) $(GITOPS_TESTS) $(UPGRADE_TESTS) $(TOOL_TESTS) $(READER_TESTS) $(MSK_TESTS),$(patsubst %/,%,$(sort $(dir $(wildcard tests/*/test_*.py)))))
# The Kafka that tests and demo run, of dev/distributions/kafka: `make test KAFKA=4.3.1`.
ifdef KAFKA
export RACKSPAN_KAFKA := $(KAFKA)
endif
# The Kubernetes, of dev/distributions/kubernetes: `make test KUBERNETES=1.30.14`.
ifdef KUBERNETES
export RACKSPAN_KUBERNETES := $(KUBERNETES)
endif
COMPILE := $(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 \
	--no-emit-index-url --no-emit-find-links --no-header

# Hundreds of processes start: without compiled files each compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

.PHONY: help
help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z0-9%-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: venv
venv: $(READY) ## Create .venv from the locked, hashed requirements

$(READY): requirements/dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the locked packages into $(VENV)"
	@# pyspark is published as source only: what builds it comes out of the lock as well.
	@awk '/^[a-z]/ { wanted = /^setuptools==/ } wanted' requirements/dev.lock > $(VENV)/build.lock
	@$(PIP) --require-hashes --requirement $(VENV)/build.lock
	@# Python compiles what it imports; most of what is installed is never imported.
	@$(PIP) --no-compile --require-hashes --no-build-isolation --requirement requirements/dev.lock
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: assets
assets: $(READY) ## Get Kubernetes, Kafka, helm and promtool into the cache, and Chromium (once: 5 to 20 minutes)
	@$(BIN)/python -m dev assets >/dev/null

.PHONY: plugins
plugins: $(READY) ## Compile the plug-ins for brokers (Java 17) and say where their jar is
	@$(BIN)/python -m dev plugins

.PHONY: check
check: lint ## Lint, types, layers, unit and property tests, these with few cases (under two minutes)
	$(PYTEST) $(SHARED_FAST) --hypothesis-profile=fast $(FAST_TESTS)

.PHONY: lint
lint: $(READY) ## Style, types and layers alone
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: test
test: $(READY) ## Lint, then all tests on the real control plane and the real Kafka, laws with many cases
	@$(MAKE) --jobs=2 lint assets
	$(PYTEST) $(SHARED) --hypothesis-profile=deep --durations=25 -m "not nightly" $(STACK_TESTS) $(FAST_TESTS)

.PHONY: test-nightly
test-nightly: assets ## The demo, and the pages whose commands run as a reader types them: not part of `make test`
	$(PYTEST) $(SHARED) -m nightly $(STACK_TESTS)

.PHONY: test-unit test-property
test-unit test-property: test-%: $(READY)
	$(PYTEST) $(SHARED_FAST) --hypothesis-profile=deep tests/$*

.PHONY: test-tools
test-tools: assets ## The development stack, the demo's pictures and the benchmarks: not part of `make test`
	$(PYTEST) $(SHARED) $(TOOL_TESTS)

.PHONY: test-readers
test-readers: $(READY) ## Polars, pandas, DuckDB and Spark read a history: not part of `make test`, 80 MB of packages
	@$(PIP) --upgrade --no-deps --require-hashes --target $(VENV)/readers --requirement requirements/readers.lock
	PYTHONPATH=$(VENV)/readers $(PYTEST) $(READER_TESTS)

.PHONY: test-msk
test-msk: $(READY) ## AWS credentials as botocore finds them: not part of `make test`, 30 MB of packages
	@$(PIP) --upgrade --no-deps --require-hashes --target $(VENV)/msk --requirement requirements/msk.lock
	PYTHONPATH=$(VENV)/msk $(PYTEST) $(MSK_TESTS)

test-%: assets ## The tests of one folder: test-unit, test-crds, test-integration, ...
	$(PYTEST) $(SHARED) tests/$*

.PHONY: e2e
e2e: assets ## Real pods: images built, kubelets, scans as Jobs and on Spark's executors (root; E2E_ARGS for pytest)
	@$(BIN)/python -m dev pods >/dev/null
	$(PYTEST) $(POD_TESTS) $(E2E_ARGS)

.PHONY: gitops
gitops: assets ## Flux and Argo CD bring topics from a Git server to the operator (GITOPS_ARGS for pytest)
	@$(BIN)/python -m dev gitops >/dev/null
	$(PYTEST) $(GITOPS_TESTS) $(GITOPS_ARGS)

# Until there is a tag: the newest version that is a day old.
EARLIER ?= $(shell git describe --tags --abbrev=0 2>/dev/null || git rev-list -1 --before='1 day ago' HEAD)

.PHONY: upgrade
upgrade: assets ## An upgrade from the version before and the way back, while a plan is carried out (EARLIER=REF)
	RACKSPAN_EARLIER=$(EARLIER) $(PYTEST) $(UPGRADE_TESTS)

.PHONY: faults
faults: assets ## apply and the operator killed 200 times, and their worlds broken, on real servers (FAULTS_ARGS; half an hour)
	@$(BIN)/python -m dev.faults $(FAULTS_ARGS)

.PHONY: demo
demo: $(READY) ## Nine real brokers, the operator and its topics, on this machine (DEMO_ARGS=--keep leaves them running)
	@$(BIN)/python -m dev.demo $(DEMO_ARGS)

.PHONY: down
down: $(READY) ## End every stack that was left running, and delete its state
	@$(BIN)/python -m dev down --all

.PHONY: bench
bench: assets ## Measure the operator and the placers (BENCH_ARGS)
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

.PHONY: bench-quick
bench-quick: assets ## The same at a glance: topics, and a start among 16,000 pods (two minutes)
	@$(BIN)/python -m benchmarks topics --quick
	@$(BIN)/python -m benchmarks footprint --crowd 16000 0

.PHONY: lock
lock: $(READY) ## Write requirements/*.lock anew from pyproject.toml (LOCK_ARGS=--upgrade for newer versions)
	$(COMPILE) $(LOCK_ARGS) --output-file requirements/operator.lock pyproject.toml
	$(COMPILE) $(LOCK_ARGS) --extra spark --constraint requirements/operator.lock --output-file requirements/scan.lock pyproject.toml
	$(COMPILE) $(LOCK_ARGS) --extra spark --group dev --constraint requirements/scan.lock --output-file requirements/dev.lock pyproject.toml
	$(COMPILE) $(LOCK_ARGS) --group readers --output-file requirements/readers.lock
	$(COMPILE) $(LOCK_ARGS) --group site --output-file requirements/site.lock
	$(COMPILE) $(LOCK_ARGS) --group msk --output-file requirements/msk.lock

.PHONY: site
site: $(SITE)/.ready ## Build the documentation as a site into build/site, and check its links
	@$(SITE)/bin/python -m dev.website

.PHONY: site-all
site-all: $(SITE)/.ready ## The same, with the documentation of each release that has a tag
	@$(SITE)/bin/python -m dev.website --releases

$(SITE)/.ready: requirements/site.lock
	@$(PYTHON) -m venv --clear $(SITE)
	@$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement $<
	@touch $@

.PHONY: release
release: $(READY) ## Build the artefacts of a release into dist/release: wheel, chart, definitions, plug-ins (of Krew, too), SBOM, checksums
	rm -rf dist/release
	@$(BIN)/python -m dev release dist/release --tag="$(RELEASE_TAG)"

.PHONY: images
images: $(READY) ## Build the images of a release into dist/images, in the OCI layout (IMAGES_BASE; without it as root)
	@$(BIN)/python -m dev images dist/images --base="$(IMAGES_BASE)"

.PHONY: audit
audit: $(READY) ## Look up known vulnerabilities of the locked packages; says so where the database cannot be reached
	@$(BIN)/python -m dev.audit

.PHONY: clean
clean: ## Delete what was made inside the clone; the cache of `make assets` stays
	@if test -x $(BIN)/python; then $(MAKE) down; fi
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
