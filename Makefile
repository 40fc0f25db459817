# Two commands matter: make serve, make test. Everything lives in .venv and data/.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: setup serve test explore fuzz check format lock sbom clean

setup: $(VENV)/.dev

$(VENV)/.serve: requirements/serve.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed; set PYTHON=...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -q --require-hashes -r requirements/serve.txt
	$(PIP) install -q --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -q coordinator
	touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.serve
	$(PIP) install -q --require-hashes -r requirements/dev.txt
	touch $@

serve: $(VENV)/.serve
	exec $(BIN)/coordinator serve --config config/default.yaml --data-dir data $(ARGS)

test: $(VENV)/.dev
	$(BIN)/python -m pytest $(ARGS)

# What the tests draw at random is the same in each run of `make test`. Here it is new in each of RUNS rounds.
RUNS ?= 10
explore: $(VENV)/.dev
	for run in $$(seq $(RUNS)); do $(BIN)/python -m pytest -q -x --hypothesis-profile=explore -m hypothesis $(ARGS) || exit 1; done

# Looks for inputs that break a decoder or reader, SECONDS for each of the TARGETS (all without), and updates tests/fuzz/corpus.
SECONDS ?= 60
fuzz: $(VENV)/.dev
	$(BIN)/python -m tests.fuzz.fuzz --seconds $(SECONDS) $(TARGETS)

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Pins every dependency by hash; needs uv.
lock:
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url pyproject.toml requirements/build.in -o requirements/serve.txt
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --extra postgresql pyproject.toml requirements/build.in -c requirements/serve.txt -o requirements/image.txt
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --extra dev --extra pipeline --extra postgresql pyproject.toml requirements/build.in -c requirements/serve.txt -o requirements/dev.txt
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url requirements/sbom.in -c requirements/dev.txt -o requirements/sbom.txt
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url requirements/example.in -c requirements/dev.txt -o requirements/example.txt

# The parts that an installation of the server has, with their hashes, in CycloneDX.
SBOM ?= build/sbom.cdx.json
sbom: $(VENV)/.dev
	mkdir -p $(dir $(SBOM))
	$(BIN)/cyclonedx-py requirements requirements/serve.txt --pyproject pyproject.toml --mc-type application --output-reproducible --of JSON -o $(SBOM)

clean:
	rm -rf $(VENV) data build dist *.egg-info
