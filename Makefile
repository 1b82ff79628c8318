# Every target makes what it needs first: a fresh clone needs only make, Python 3.11+, Node 22+.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Another Python: make setup PYTHON=/usr/bin/python3.13
PYTHON ?=
# Of the simulation: how many runs, and the first one's seed.
SEEDS ?= 1000
START ?= 0
# How many CPU seconds `make test` may use; none means as many as it needs.
CPU_SECONDS ?=
# How many processes share the runs.
JOBS ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)

BIN := .venv/bin
CDK := node_modules/.bin/cdk
TYPESCRIPT := clients/typescript
SECOND_JUDGE := tests/infra/second_judge
READY := .venv/.ready node_modules/.ready $(TYPESCRIPT)/node_modules/.ready \
	$(SECOND_JUDGE)/node_modules/.ready
PYTEST := $(BIN)/pytest -n 2
FEW := --hypothesis-profile few
# A sample of the stories on the other transport, and on another engine than the model.
ON_MOTO := $(patsubst %,tests/integration/%.py,fanout/test_pipeline fanout/test_publish \
	follows/test_follow timeline/test_timeline)
COMPILE := $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-emit-find-links \
	--custom-compile-command "make lock"

# What pip is told about its index, uv is told too; it would not look.
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif
# Nor would it look for the certificate of a company's proxy where the system keeps it.
ifneq ($(wildcard /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem),)
export UV_SYSTEM_CERTS ?= true
endif
# CDK says in eleven lines at every run that Node 20 is over; `make setup` says it once.
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION := 20
# Nothing here calls home.
export CDK_DISABLE_CLI_TELEMETRY := true
# Keep bytecode: otherwise each of the many processes of a test compiles boto3 and the CDK again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup demo demo-alone quick test check verify static thorough doors slow speed simulate \
	mutants contract bench aws-verify runtime judges format documents audit lock wheel release synth clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(READY) ## Install everything into this directory: .venv and node_modules
	@echo "Ready. Next: make demo, or make test."

demo: $(READY) ## Deploy to a local engine and watch posts reach their followers
	@$(BIN)/fanfold demo

quick: .venv/.ready ## Run the unit tests without sockets, in under a minute
	@$(PYTEST) $(FEW) -m "not (network or thorough)" tests/unit tests/aws_model

test: $(READY) ## Run the tests, in about five minutes: everything once, and the main job end to end
	@$(if $(CPU_SECONDS),$(BIN)/python -P -m tools.cpu_limit $(CPU_SECONDS)) $(PYTEST) $(FEW) -m "not (thorough or slow or speed)"

check: static test thorough ## What CI runs, in about ten minutes: static checks and every deterministic test

static: $(READY)
	@echo "Linting."
	@$(BIN)/ruff check --quiet .
	@echo "Checking the format."
	@$(BIN)/ruff format --quiet --check . && npm --prefix $(TYPESCRIPT) run --silent format:check || \
		{ echo "Not formatted; make format does it." >&2; exit 1; }
	@echo "Checking the types."
	@$(BIN)/mypy --no-error-summary
	@echo "Synthesizing the app."
	@$(BIN)/python app.py
	@echo "Lint, format, types and synth have passed."

thorough: $(READY)
	@echo "Running the thorough tests."
	@$(PYTEST) -m "(thorough or hypothesis) and not (slow or speed)"
	@echo "Running the main stories through boto3, on moto."
	@$(PYTEST) --engine moto -m "not (slow or speed)" $(ON_MOTO)

doors: $(READY)
	@echo "Running the forged and random requests, thousands of each."
	@$(PYTEST) -m slow tests/doors

slow: $(READY)
	@echo "Running the slow tests."
	@$(PYTEST) -m "slow and not speed" $(patsubst %,tests/%,bench compat e2e wheel wire)

speed: $(READY)
	@echo "Running the tests that measure speed."
	@$(BIN)/pytest -m speed

simulate: .venv/.ready ## Try to lose a post: SEEDS=1000 runs of the whole system from START=0, by JOBS processes
	@$(BIN)/python -m proof.simulation --seeds $(SEEDS) --start $(START) --jobs $(JOBS) --keep .simulation

mutants: .venv/.ready ## Take out guards and see the simulation notice; change lines, and a test does
	@$(BIN)/python -m proof.mutants

contract: $(READY) ## Try the whole OpenAPI document against a local engine, in under ten minutes
	@$(BIN)/pytest -s -m slow tests/e2e/api/test_contract.py

bench: .venv/.ready ## Measure what the product costs beside its rivals, and keep the results
	@$(BIN)/python -m proof.bench --save

aws-verify: $(READY) ## A day on AWS, which asks first what it may cost: STACK=Fanfold-verify, LARGE=1, REMOVE=1; or LOCAL=1
	@$(BIN)/python -m proof.aws_verify $(STACK) $(if $(LARGE),--large) $(if $(REMOVE),--remove) \
		$(if $(LOCAL),--local) $(if $(KEEP),--keep) $(if $(CONCURRENCY),--concurrency $(CONCURRENCY)) $(if $(YES),--yes)

runtime: $(READY) ## Run the unit tests on the Python that Lambda runs, where it can be had
	@$(BIN)/python -m tests.pythons

judges: $(READY) ## Run the integration tests on DynamoDB Local, where Java and Maven are
	@$(PYTEST) --engine dynamodb-local -m "not (slow or speed or network)" tests/integration

verify: $(READY) ## Prove everything, in stages that go on where they were: STAGES="simulation demo", SEEDS=4000
	@$(BIN)/python -m tools.verify $(STAGES) $(if $(filter command line,$(origin SEEDS)),--seeds $(SEEDS))

demo-alone: $(READY)
	@echo "Running the demo, on an engine of its own that ends with it."
	@export FANFOLD_HOME="$$(mktemp -d)"; \
	trap '$(BIN)/fanfold local down; rm -rf "$$FANFOLD_HOME"' EXIT; \
	$(BIN)/fanfold demo

format: $(READY) ## Format the code and mend what the linter can
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .
	@npm --prefix $(TYPESCRIPT) run --silent format

documents: $(READY) ## Write docs/openapi.json, docs/schemas, docs/*.md of limits, settings, licences and the types of TypeScript
	@$(BIN)/python -m tools.contract_docs
	@$(BIN)/python -m tools.audit.licences
	@npm --prefix $(TYPESCRIPT) run --silent schema

audit: $(READY) ## Look up known faults of every locked package, and of the bundled libcurl: needs the internet
	@$(BIN)/python -m tools.audit

lock: .venv/.ready ## Lock the newest versions that requirements*.in and package.json allow
	@echo "Locking what runs on Lambda."
	@$(COMPILE) --output-file requirements.txt requirements.in
	@$(COMPILE) --output-file requirements-boto3.txt requirements-boto3.in
	@echo "Locking what builds and tests it."
	@$(COMPILE) --output-file requirements-dev.txt requirements-dev.in
	@$(COMPILE) --output-file requirements-uv.txt requirements-uv.in
	@echo "Locking the CDK command line."
	@npm install --package-lock-only --loglevel=error
	@echo "Locking the TypeScript client."
	@npm --prefix $(TYPESCRIPT) install --package-lock-only --loglevel=error
	@echo "Locking the second judge of policies."
	@npm --prefix $(SECOND_JUDGE) install --package-lock-only --loglevel=error

wheel: $(READY) ## Write the wheel for other CDK apps to dist
	@$(BIN)/uv build --quiet --wheel --no-build-isolation --python $(BIN)/python --out-dir dist .
	@ls dist/*.whl

release: wheel ## Write a release to dist: the wheel, plain CloudFormation templates and the code for them, SHA-256 sums
	@$(BIN)/python -m infra.release dist

synth: $(READY) ## Write the CloudFormation template to cdk.out
	@$(CDK) synth --quiet --no-notices
	@echo "Written to cdk.out."

clean: ## Remove what setup, tests and synth have made (not .fanfold, the local engine's home)
	@rm -rf $(addprefix $(TYPESCRIPT)/,node_modules dist .build) $(SECOND_JUDGE)/node_modules
	@rm -rf .venv node_modules cdk.out dist .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The Python side: uv by pip, the locked packages by uv, and this checkout as `fanfold`.
.venv/.ready: requirements-uv.txt requirements-dev.txt pyproject.toml
	@python="$(PYTHON)"; \
	for name in python3 python3.14 python3.13 python3.12 python3.11; do \
		[ -z "$$python" ] || break; \
		if $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$name; fi; \
	done; \
	python=$${python:-python3}; \
	if ! command -v "$$python" >/dev/null; then \
		echo "Fanfold needs Python 3.11 or newer, and there is no $$python here." >&2; \
		echo "Install one (https://www.python.org/downloads/), or name it: make setup PYTHON=..." >&2; \
		exit 1; \
	fi; \
	if ! "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
		echo "Fanfold needs Python 3.11 or newer, and $$python is $$("$$python" --version 2>&1)." >&2; \
		echo "Install a newer one, or name it: make setup PYTHON=python3.13" >&2; \
		exit 1; \
	fi; \
	if ! $(BIN)/python -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
		echo "Making .venv with $$("$$python" --version)."; \
		"$$python" -m venv --clear .venv || { \
			echo "This Python cannot make a virtual environment; on Debian and Ubuntu:" >&2; \
			echo "  apt-get install python3-venv" >&2; \
			exit 1; \
		}; \
	fi
	@echo "Installing uv, which installs the rest."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input \
		--require-hashes --no-deps --only-binary :all: --requirement requirements-uv.txt
	@echo "Installing the $$(grep -c '^[a-z].*==' requirements-dev.txt) packages of requirements-dev.txt, each checked against its hash (600 MB on disk)."
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --requirement requirements-dev.txt
	@echo "Installing this checkout, so that .venv/bin/fanfold runs it."
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-build-isolation --no-deps --editable .
	@touch $@

# The Node side: the CDK command line.
node_modules/.ready: package.json package-lock.json .npmrc
	@if ! command -v node >/dev/null || ! command -v npm >/dev/null; then \
		echo "Fanfold needs Node 22 or newer with npm, for the CDK, and they are not here." >&2; \
		echo "Install them: https://nodejs.org/" >&2; \
		exit 1; \
	fi; \
	major=$$(node --version | sed 's/^v//; s/\..*//'); \
	if [ "$$major" -lt 20 ]; then \
		echo "Fanfold needs Node 22 or newer, for the CDK, and this is $$(node --version)." >&2; \
		echo "Install a newer one: https://nodejs.org/" >&2; \
		exit 1; \
	fi; \
	if [ "$$major" -lt 22 ]; then \
		echo "Node $$(node --version) still does, but its time is over: install 22 or newer, https://nodejs.org/"; \
	fi
	@echo "Installing the CDK command line of package-lock.json."
	@npm ci --loglevel=error --no-progress
	@touch $@

# The TypeScript client: its libraries, and what builds and tests it. The rule above looks for Node.
$(TYPESCRIPT)/node_modules/.ready: $(addprefix $(TYPESCRIPT)/,package.json package-lock.json .npmrc) | node_modules/.ready
	@echo "Installing the packages of the TypeScript client (170 MB on disk, most of it a browser)."
	@cd $(TYPESCRIPT) && npm ci --loglevel=error --no-progress
	@touch $@

# What judges the policies of the functions a second time, in tests.
$(SECOND_JUDGE)/node_modules/.ready: $(addprefix $(SECOND_JUDGE)/,package.json package-lock.json .npmrc) | node_modules/.ready
	@echo "Installing the second judge of policies (19 MB on disk)."
	@cd $(SECOND_JUDGE) && npm ci --loglevel=error --no-progress
	@touch $@
