# make demo · make theory · make test: each sets up all it needs. make install: the virtual environment alone.
PYTHON ?= python3
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo theory results bench bench-learning bench-baselines bench-offline bench-reliability test test-fast test-browser coverage install lint types imports pytest lock wheel clean

# Pendulum from nothing to solved; small networks suffice for it.
demo: install
	@rm -rf out/demo
	@$(BIN)/sbeed train --env Pendulum-v1 --steps 15000 --hidden 64 64 --warmup 1000 --evaluate-every 500 --out out/demo
	@$(BIN)/sbeed video out/demo --episodes 3 --out out/demo/swing_up.gif
	@echo "The learning curve lies in out/demo/curve.png, the swing-up in out/demo/swing_up.gif"

theory: install
	@$(BIN)/sbeed theory
	@$(BIN)/sbeed figure theory --out out/theory
	@echo "The picture lies in out/theory/theory.png"

# results/learning/README.md and its figure from the committed rows.
results: install
	@$(BIN)/python -m benchmarks.learning_page results/learning

# Ours beside others, on a machine that does nothing else: a table, and results/bench.
bench: install .venv-bench/.installed
	@$(BIN)/python -m benchmarks

# The benchmark that takes hours: wall time to a return. Goes on where it was interrupted.
bench-learning: install .venv-bench/.installed
	@$(BIN)/python -m benchmarks --only time_to_return

# Our TRPO, DDPG and SAC beside widely used ones: trains what is missing, and results/baselines. Takes hours.
bench-baselines: install .venv-bench/.installed
	@$(BIN)/python -m benchmarks.baselines

# What can be learned from fixed data: measures what is missing, and results/offline.
bench-offline: install
	@$(BIN)/python -m benchmarks.offline

# What may happen to a run, done to it many times over: a table, and results/reliability.
bench-reliability: install
	@$(BIN)/python -m benchmarks.reliability

test: lint types imports pytest

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

imports: install
	$(BIN)/lint-imports

pytest: install
	$(BIN)/pytest -n 2 --dist worksteal

# All but the tests marked slow: under a minute on two cores that do nothing else.
test-fast: lint imports
	$(BIN)/pytest -n 2 --dist worksteal -m "not slow and not browser"

# Lines of src that the tests run, in the processes that they start too.
coverage: install
	@$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n 2 --dist worksteal
	@$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

# The report in a real browser. Debian's Chromium is installed where that may be; without one this fails.
test-browser: install
	@command -v chromium > /dev/null \
		|| { test "$$(id -u)" = 0 && command -v apt-get > /dev/null && { apt-get update --quiet=2 || true; } \
			&& DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends chromium > /dev/null; } \
		|| { echo "make test-browser: there is no chromium, and it could not be installed: apt-get install chromium" >&2; exit 1; }
	$(BIN)/pytest tests/browser -m browser

install: .venv/.installed

# Hashes pin every file; hatchling is in the list, so that nothing is fetched unpinned to build the package itself.
.venv/.installed: requirements.txt pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --require-hashes -r requirements.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# The peers' own environment. Torch comes first and without a hash: which of its builds there is, for CPUs alone or for
# GPUs too, depends on the index.
.venv-bench/.installed: benchmarks/requirements.txt
	@test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip install --quiet $$(grep ^torch== benchmarks/requirements.in)
	.venv-bench/bin/pip install --quiet --require-hashes -r benchmarks/requirements.txt
	@touch $@

# d3rlpy's, which needs an older gymnasium than the rest.
.venv-d3rlpy/.installed: benchmarks/offline/requirements.txt
	@test -x .venv-d3rlpy/bin/python || $(PYTHON) -m venv .venv-d3rlpy
	.venv-d3rlpy/bin/pip install --quiet $$(grep ^torch== benchmarks/offline/requirements.in)
	.venv-d3rlpy/bin/pip install --quiet --require-hashes -r benchmarks/offline/requirements.txt
	@touch $@

# Rewrites requirements.txt from pyproject.toml: the newest versions that fit, with hashes and without an index.
lock:
	$(PYTHON) -m venv .venv-lock && .venv-lock/bin/pip install --quiet pip-tools
	.venv-lock/bin/pip-compile --quiet --upgrade --extra dev --extra plot --extra mujoco --extra video --extra ray --extra tune --extra minari --generate-hashes --strip-extras --no-annotate \
		--no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --output-file requirements.txt pyproject.toml
	.venv-lock/bin/pip-compile --quiet --upgrade --unsafe-package torch --unsafe-package setuptools --generate-hashes --strip-extras --no-annotate \
		--no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --output-file benchmarks/requirements.txt benchmarks/requirements.in
	.venv-lock/bin/pip-compile --quiet --upgrade --unsafe-package torch --unsafe-package setuptools --generate-hashes --strip-extras --no-annotate \
		--no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --output-file benchmarks/offline/requirements.txt benchmarks/offline/requirements.in
	rm -rf .venv-lock

wheel: install
	$(BIN)/python -m build --wheel --no-isolation

clean:
	rm -rf .venv .venv-bench .venv-d3rlpy out dist build
