# Every target is a short script or command of its own; `make` alone prints what there is.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PY := .venv/bin/python

.PHONY: help setup lint format test test-unit

help: ## this text
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

setup: ## the Python environment only: .venv with aictl
	@tools/setup

lint: setup ## style, types, rooms, dependencies, sizes
	@tools/lint

format: setup ## let ruff arrange the code
	@.venv/bin/ruff format . && .venv/bin/ruff check --fix .

test-unit: setup ## unit tests, below a minute
	@$(PY) -m pytest -q tests/unit

test: setup ## every test layer: unit, contract, component, charts, e2e (root)
	@$(PY) tools/prerequisites.py
	@$(PY) tools/run_tests.py
