# Three commands matter: make serve, make quick, make test. Everything lives in .venv and data/.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
PIP := $(BIN)/python -m pip --disable-pip-version-check

# Python keeps what it compiled, and pytest the tests that it rewrote, or every process compiles all of them again.
unexport PYTHONDONTWRITEBYTECODE
# Processes that run tests; 0: no process but this one, for a debugger. `auto` is one per core, and for `test` one more, since
# most of its tests wait for other programs.
WORKERS ?= auto

.PHONY: setup install serve quick test explore fuzz check site workflows format lock sbom release clean

setup: $(VENV)/.dev

# The server alone.
install: $(VENV)/.serve

$(VENV)/.serve: requirements/serve.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed; set PYTHON=...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo 'Installing the server into $(VENV): 80 MB, about 20 seconds.'
	$(PIP) install -q --require-hashes -r requirements/serve.txt
	$(PIP) install -q --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -q coordinator
	touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.serve
	@echo 'Installing what tests and Spark jobs need into $(VENV): 1.8 GB, one to five minutes. `make serve` does without it.'
	$(PIP) install -q --require-hashes -r requirements/dev.txt
	touch $@

serve: $(VENV)/.serve
	exec $(BIN)/coordinator serve --config config/default.yaml --data-dir data $(ARGS)

# Every test that starts no other program and does not compute for seconds.
quick: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not process and not long" $(ARGS)

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(or $(filter-out auto,$(WORKERS)),$$(($$(getconf _NPROCESSORS_ONLN) + 1))) --dist loadgroup --no-loadscope-reorder $(ARGS)

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
	$(BIN)/python -m coordinator.protocol.stubs
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) --no-print-directory site workflows

# The pages of docs/ and the README as a site in build/site, with search. A broken link or a file from another host is an error.
SITE := build/site
site: $(VENV)/.dev
	$(BIN)/sphinx-build -q -W --keep-going -n -b html -d build/doctrees docs $(SITE)
	! grep -rnE '<(script|link|img|iframe)[^>]+(src|href)="(https?:)?//' $(SITE) --include=*.html

# What a public forge runs: the files' schema, and their security.
workflows: $(VENV)/.dev
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/zizmor --offline --quiet --no-progress --pedantic .github/workflows

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

# Everything that a release uploads, with its checksums. The image is built where there is a container engine.
release: $(VENV)/.dev
	rm -rf dist build/lib && mkdir -p build
	$(BIN)/python -c 'import setuptools.build_meta as backend; backend.build_sdist("dist"); backend.build_wheel("dist")' > build/release.log
	$(BIN)/twine check --strict dist/*
	$(MAKE) --no-print-directory sbom SBOM=dist/sbom.cdx.json
	@if docker info > /dev/null 2>&1; then \
	    docker build -q -t kafka-group-coordinator:$(VERSION) . && \
	    docker save kafka-group-coordinator:$(VERSION) | gzip -9n > dist/kafka-group-coordinator-$(VERSION)-image.tar.gz; \
	else echo 'No image: no container engine answers (docker info).'; fi
	cd dist && sha256sum -- * > SHA256SUMS && cat SHA256SUMS

clean:
	rm -rf $(VENV) data build dist *.egg-info
