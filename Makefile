# Names for the scripts; everything works without make too.
.PHONY: help demo test quick check bench golden lock clone bare

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | sort

demo: ## an example DAG on a real Airflow, with real training
	scripts/demo

test: ## everything, as CI runs it
	scripts/test

quick: ## unit, contract on the embedded backend, meta: under two minutes
	scripts/test --quick

check: ## ruff, mypy, import contracts, sizes
	scripts/test tests/meta

bench: ## figures, each with its bound
	scripts/bench

golden: ## write the golden manifests anew
	scripts/golden

lock: ## resolve requirements/lock.txt and requirements/floor.txt anew
	scripts/lock

clone: ## the README's commands in a fresh clone, timed
	scripts/clean-clone

bare: ## the same on a bare Debian 12, with the quick tests
	scripts/clean-clone --bare --quick
