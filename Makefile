# Every target is a short script or command of its own; `make` alone prints what there is.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PY := .venv/bin/python
# Only a KUBECONFIG typed after `make` chooses the demo's cluster, never one that happens to be exported.
DEMO_CLUSTER := $(if $(filter command line,$(origin KUBECONFIG)),--kubeconfig $(KUBECONFIG))

.PHONY: help setup lint format test test-unit demo demo-down

help: ## this text
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

setup: ## the Python environment only: .venv with aictl
	@tools/setup

lint: setup ## style, types, rooms, dependencies, sizes
	@tools/lint

format: setup ## let ruff arrange the code
	@.venv/bin/ruff format . && .venv/bin/ruff check --fix .

test-unit: setup ## unit tests, below a minute
	@$(PY) tools/run_tests.py unit

test: setup ## every test layer: unit, contract, component, charts, machine, e2e (root)
	@$(PY) tools/prerequisites.py
	@$(PY) tools/run_tests.py

demo: setup ## a real model uploaded, delivered to a Pod, ordered as a service that answers (root; KUBECONFIG=FILE: a cluster of yours)
	@$(PY) -m tools.demo $(DEMO_CLUSTER) up $(if $(IMAGE),--image $(IMAGE)) $(if $(LLAMA_IMAGE),--llama-image $(LLAMA_IMAGE)) $(if $(GATE_IMAGE),--gate-image $(GATE_IMAGE))

demo-down: setup ## remove all that `make demo` has made
	@$(PY) -m tools.demo $(DEMO_CLUSTER) down

.PHONY: bench bench-platform bench-copy bench-inspect bench-dmcr bench-gate bench-orders bench-ingress
bench: bench-inspect bench-dmcr bench-gate bench-orders bench-copy bench-platform bench-ingress ## every benchmark, one after another

bench-platform: setup ## the installed module: upload to Ready, deletion, memory (root)
	@PYTHONPATH=. $(PY) tests/bench/platform_bench.py

bench-copy: setup ## the copy Job against curl and cp
	@PYTHONPATH=. $(PY) tests/bench/copy_bench.py

bench-inspect: setup ## aictl inspect: time, memory, ratio to the formats' own libraries
	@PYTHONPATH=. $(PY) tests/bench/inspect_bench.py

bench-dmcr: setup ## DMCR's PUT and GET against docker-registry on the same disk
	@PYTHONPATH=. $(PY) tests/bench/dmcr_bench.py

bench-orders: setup ## 50 orders at once: time to the first condition, API writes, memory of the controller
	@PYTHONPATH=. $(PY) tests/bench/orders_bench.py

bench-gate: setup ## what the gate before a runtime costs: the same runtime with and without it
	@PYTHONPATH=. $(PY) tests/bench/gate_bench.py

bench-ingress: setup ## bodies and events through an Ingress and an HTTPRoute, against none (root)
	@PYTHONPATH=. $(PY) tests/bench/ingress_bench.py
