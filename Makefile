# Everything is set up on demand: `make run` needs Python 3.11+, `make test` also a JRE and the network.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt
STATIC := src/kafscale/console/static
UI_SOURCES := $(shell test ! -d ui || find ui -path ui/node_modules -prune -o -type f -not -name shapes.d.ts -print)
# Compiled files are kept, whatever the surroundings say: else every worker compiles everything anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup run console wheel cluster lint check format test demo clients rust-client smart-modules ecosystem compat deep fuzz simulate faults faults-tables faults-proxy bench bench-spark manifests kube image test-kubernetes test-connect test-versions lock clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(VENV)/.broker: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "kafscale needs Python 3.11 or newer; set PYTHON=/path/to/python3" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "setting up $(VENV), once ..."; $(PYTHON) -m venv $(VENV); }
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv
	@$(UV) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.broker
	@$(UV) -e '.[aws,etcd,oauth,operator,smartmodules,spark,fast,delta,iceberg,avro,protobuf]' --group dev
	@touch $@

# Optional: without a compiler there is a warning, and records are checked by slower code.
COMPILED = src/kafscale/records/walk.py $(wildcard src/kafscale/gateways/*/*/splice.py) \
	src/kafscale/gateways/pulsar/messages/sends.py

$(VENV)/.compiled: $(VENV)/.dev setup.py $(COMPILED)
	@$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

$(VENV)/.local: $(VENV)/.broker
	@$(UV) -e '.[local]'
	@touch $@

setup: $(VENV)/.compiled  ## install everything, tests included, into .venv

run: $(VENV)/.broker  ## start a broker on 127.0.0.1:9092 with its data under ./data, and the console on 8080
	@$(BUILD_CONSOLE)
	@exec $(BIN)/kafscale serve

# The page is built beside the running broker, which needs neither npm nor the network.
BUILD_CONSOLE = mkdir -p .cache; test ! -d ui || { nice $(MAKE) -s console || echo "failed"; } > .cache/console.log 2>&1 < /dev/null &

console: $(STATIC)/index.html  ## build the page of the web console, once and when ui/ has changed

$(VENV)/.node: $(VENV)/.broker
	@$(UV) --group ui
	@touch $@

$(STATIC)/index.html: $(VENV)/.node ui/package-lock.json $(UI_SOURCES)
	@$(BIN)/python -m kafscale.console.openapi ui/src/shapes.d.ts
	@cd ui && PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --omit=dev --no-progress
	@rm -rf $(STATIC).new $(STATIC).old
	@cd ui && PATH="$(CURDIR)/$(BIN):$$PATH" npx vite build --logLevel warn --outDir "$(CURDIR)/$(STATIC).new" --emptyOutDir
	@test ! -e $(STATIC) || mv $(STATIC) $(STATIC).old
	@mv $(STATIC).new $(STATIC) && rm -rf $(STATIC).old
	@touch $@

wheel: console  ## build a wheel with the console's page in it
	@$(BIN)/uv build --quiet --wheel

cluster: $(VENV)/.local  ## start three brokers, etcd and an S3 server, all in ./kafscale-cluster
	@exec $(BIN)/kafscale cluster up

lint: $(VENV)/.compiled
	@mkdir -p .cache
	@$(BIN)/ruff format --quiet --check src tests benchmarks
	@$(BIN)/ruff check --quiet src tests benchmarks
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo > .cache/imports.txt 2>&1 || { cat .cache/imports.txt; exit 1; }
	@wc -l $$(find src -name '*.py') | awk '$$2 != "total" && $$1 > 400 {print "warning: " $$2 " has " $$1 " lines (CONTRIBUTING.md)"}' >&2

check: lint  ## format, lint, types, import walls, unit tests (two minutes on two cores)
	@$(BIN)/pytest tests/unit tests/contract tests/model -m "not slow and not deep" --hypothesis-profile quick -n 3

format: $(VENV)/.dev  ## rewrite the code the way `make check` wants it
	@$(BIN)/ruff check --quiet --fix-only src tests benchmarks
	@$(BIN)/ruff format --quiet src tests benchmarks

test: lint  ## every test: real clients, real S3 server, kill -9
	@$(BIN)/pytest tests -n 3 --dist worksteal

compat: $(VENV)/.dev  ## other projects' tests for Kafka brokers, whole (half an hour)
	@$(BIN)/python -m tests.compat

demo: $(VENV)/.dev  ## a broker, a week of orders, a Delta table and a report, in ./demo
	@$(BIN)/kafscale demo

clients: $(VENV)/.dev  ## try every client anew and write docs/clients.md
	@KAFSCALE_TEST_WRITE_CLIENTS=1 $(BIN)/pytest tests/e2e/test_matrix.py -n 0

rust-client: $(VENV)/.dev  ## build the tests' Fluvio client of crates.io by Rust, as the first test would that needs it
	@$(BIN)/python -m tests.support.fluvio_clients

smart-modules: $(VENV)/.dev  ## build the SmartModules of the tests by Rust, as the first test would that needs them
	@$(BIN)/python -m tests.support.smart_modules

ecosystem: $(VENV)/.dev  ## try what people run on Kafka and write docs/ecosystem.md (a quarter of an hour)
	@KAFSCALE_TEST_WRITE_ECOSYSTEM=1 $(BIN)/pytest tests/ecosystem -m 'ecosystem or slow' -n 0

deep: $(VENV)/.dev  ## search the model of the log protocol far (ten minutes)
	@$(BIN)/pytest tests/model -m deep -n 2

fuzz: $(VENV)/.compiled  ## throw bytes at the decoders of all doors until stopped
	@$(BIN)/python -m tests.fuzz

simulate: $(VENV)/.dev  ## whole clusters on seeded time, network and stores, until stopped (SEEDS=n: so many)
	@$(BIN)/python -m tests.simulation $(if $(SEEDS),-n $(SEEDS)) --first $(or $(FIRST),0)

faults: $(VENV)/.dev  ## attack a fleet for minutes and judge it: ARGS="--minutes 5 --seed 1 --only kill"
	@$(BIN)/python -m tests.faults $(ARGS)

faults-tables: $(VENV)/.dev  ## attack runners of the pipeline and judge their tables: ARGS="--minutes 5 --seed 1"
	@$(BIN)/python -m tests.faults.tables $(ARGS)

faults-proxy: $(VENV)/.compiled  ## attack proxies and the Apache Kafka of three nodes behind them for two minutes, and judge: ARGS="--seconds 240"
	@$(BIN)/python -m tests.faults.proxied $(ARGS)

bench: $(VENV)/.compiled  ## compare with Apache Kafka; a slow store, take-overs, many partitions, scraping, idleness, attacks (QUICK=1: only whether it runs)
	@for part in compare per_request slow_store transactions one_put takeover partitions lanes scrape idle innocent quotas encryption logins fluvio pulsar operator console proxy; do $(BIN)/python -m benchmarks.$$part $(if $(QUICK),--quick) || exit 1; done

bench-spark: $(VENV)/.dev  ## measure the pipeline: kernels, source, export, jobs, sink (an hour; QUICK=1: only whether it runs)
	@$(BIN)/python -m benchmarks.spark_all $(if $(QUICK),--quick)

manifests: $(VENV)/.dev  ## write what the chart shares with the operator, and the plain manifests for kustomize
	@$(BIN)/python -m tests.support.chart_files

kube: $(VENV)/.dev  ## build a Kubernetes control plane, helm and kubectl for tests (Go, 15 minutes of one core, once)
	@$(BIN)/python -m tests.support.kube_programs

image: $(VENV)/.dev  ## build the image without a container daemon, for tests (Debian, root, minutes)
	@$(BIN)/python -m tests.support.image

test-kubernetes: $(VENV)/.dev  ## clusters with real brokers and clients, on fakes and (after `make kube`) a real control plane
	@$(BIN)/pytest tests/kubernetes -m 'kubernetes or slow' -n 0

test-connect: $(VENV)/.dev  ## the pipeline through a server of Spark Connect (a minute or two)
	@$(BIN)/pytest tests/spark/test_connect.py -m connect -n 0

test-versions: $(VENV)/.dev  ## the pipeline on Spark 4.0, 4.1 and 4.2 (minutes)
	@$(BIN)/pytest tests/spark/test_versions.py -m 'versions or slow' -n 0

lock: $(VENV)/.broker  ## write constraints.txt anew
	@$(BIN)/uv pip compile --quiet --universal --no-header --no-annotate --no-emit-index-url --all-extras --group dev --group ui pyproject.toml -o constraints.txt && $(BIN)/uv --version | awk '{print "uv==" $$2}' >> constraints.txt

clean:  ## remove the environment and all caches, never ./data
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build dist src/*.egg-info
	find src -name '*.so' -delete
