# make demo · make test: each sets up all it needs. make install: the virtual environment alone.
PYTHON ?= python3
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test install lint types imports pytest lock wheel clean

demo: install
	@$(BIN)/sbeed theory
	@$(BIN)/sbeed figure theory --out out/demo
	@echo "The picture lies in out/demo/theory.png"

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

install: .venv/.installed

# Hashes pin every file; hatchling is in the list, so that nothing is fetched unpinned to build the package itself.
.venv/.installed: requirements.txt pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --require-hashes -r requirements.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# Rewrites requirements.txt from pyproject.toml: the newest versions that fit, with hashes and without an index.
lock:
	$(PYTHON) -m venv .venv-lock && .venv-lock/bin/pip install --quiet pip-tools
	.venv-lock/bin/pip-compile --quiet --upgrade --extra dev --extra plot --extra mujoco --generate-hashes --strip-extras --no-annotate \
		--no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --output-file requirements.txt pyproject.toml
	rm -rf .venv-lock

wheel: install
	$(BIN)/python -m build --wheel --no-isolation

clean:
	rm -rf .venv out dist build
