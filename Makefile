# A thin layer over tools/bootstrap.py, CMake and pytest. `make help` lists what there is.
PYTHON ?= python3
VENV ?= .venv
LITE ?= .venv-lite
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
BUILD ?= build/dev
NAME ?= $@
CMAKE_ARGS ?=
PYTEST_ARGS ?=
WHICH ?= -m "not slow"

# NEWEST=1 takes what came out since requirements/tested.txt was written.
BOOTSTRAP = $(PYTHON) tools/bootstrap.py --venv $(VENV) $(if $(NEWEST),--newest)
py = $(CURDIR)/$(VENV)/bin/python
# cmake, ninja and ctest may come from the environment.
with_path = PATH="$(CURDIR)/$(VENV)/bin:$$PATH";

# $(call configure,PRESET,FOLDER,CMAKE ARGUMENTS), and the same with the build after it
configure = $(with_path) cmake --preset $(1) -B $(2) -DPython_EXECUTABLE=$(py) $(3) $(CMAKE_ARGS) > build/configure.log
build = $(configure) && cmake --build $(2) -j $(JOBS)

.PHONY: help demo demo-lite test test-slow test-lite test-pythons test-platforms test-packaging test-frameworks test-distributed test-floors test-nvcc test-old-torch bench-distributed bench-threads cost-study sanitize sanitize-threads soak sweep-allocations mutate reliability lint format bench wheel wheels docs clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' Makefile

demo: ## A photograph through C++ and back, with every framework found
	@$(BOOTSTRAP) build demo --package
	@$(run_demo)

demo-lite: VENV := $(LITE)
demo-lite: ## The same with NumPy alone
	@$(BOOTSTRAP) build demo-lite --package
	@$(run_demo)

run_demo = $(with_path) cmake -S examples/photo -B build/demo-$(VENV) -G Ninja -DCMAKE_BUILD_TYPE=Release \
	-DPython_EXECUTABLE=$(py) -Disthmus_DIR="$$($(py) -m isthmus --cmakedir)" > build/configure.log \
	&& cmake --build build/demo-$(VENV) -j $(JOBS) \
	&& PYTHONPATH=build/demo-$(VENV) $(py) examples/photo/run.py --output build/demo/photo.png $(DEMO_ARGS)

test: ## The tests: C++, Python, frameworks; without those that build whole projects or run for minutes
	@$(BOOTSTRAP) build test --package
	@$(PYTHON) tools/test_floors.py --venv $(VENV) --install
	@$(call build,dev,$(BUILD),-DISTHMUS_TORCH=ON -DISTHMUS_OTHER_PYBIND11=$$(echo $(CURDIR)/$(VENV)/pybind11-*))
	@$(with_path) $(py) tools/run_tests.py --name $(NAME) --build $(BUILD) --python $(py) $(WHICH) $(PYTEST_ARGS)

test-slow: ## The tests that `make test` leaves out
	@$(MAKE) --no-print-directory test NAME=test-slow WHICH="--no-ctest -m slow"

test-lite: VENV := $(LITE)
test-lite: BUILD := build/lite
test-lite: ## The tests that need NumPy alone
	@$(BOOTSTRAP) build test-lite --package
	@$(call build,dev,$(BUILD),-DISTHMUS_CHECK_HEADERS=OFF)
	@$(with_path) $(py) tools/run_tests.py --name $(NAME) --build $(BUILD) --python $(py) $(PYTEST_ARGS)

test-pythons: ## The lite tests on every CPython found (or PYTHONS="3.13 3.10"), the full ones also on 3.12
	@$(PYTHON) tools/test_pythons.py $(PYTHONS)

test-platforms: ## The headers for macOS, Windows and musl, the core on aarch64, s390x, Windows and musl, the bridge on aarch64, as far as this machine can
	@$(BOOTSTRAP) build test-lite platforms
	@$(with_path) $(py) tools/test_platforms.py $(PLATFORM_ARGS)

test-packaging: VENV := .venv-packaging
test-packaging: ## The recipes of packaging/ with Conan and rattler-build
	@$(BOOTSTRAP) build packaging
	@mkdir -p build/packaging
	@$(with_path) $(py) tools/run_tests.py --name $(NAME) --no-ctest --build build/packaging --python $(py) $(PYTEST_ARGS) tests/install/test_packaging.py

test-frameworks: VENV := .venv-frameworks
test-frameworks: BUILD := build/frameworks
test-frameworks: ## The tests with every framework there is (many gigabytes)
	@$(BOOTSTRAP) build frameworks --package
	@$(call configure,dev,$(BUILD),-DISTHMUS_TORCH=ON) && cmake --build $(BUILD) -j $(JOBS) --target isthmus_test_ext
	@$(with_path) $(py) tools/run_tests.py --name $(NAME) --no-ctest --build $(BUILD) --python $(py) $(PYTEST_ARGS) tests/frameworks

test-distributed: VENV := .venv-distributed
test-distributed: BUILD := build/distributed
test-distributed: ## Tensors through Ray, Dask, multiprocessing, joblib and MPI, with the engines themselves (gigabytes)
	@$(BOOTSTRAP) build distributed --package
	@mkdir -p $(BUILD)
	@$(with_path) ISTHMUS_ENGINES=1 $(py) tools/run_tests.py --name $(NAME) --no-ctest --build $(BUILD) --python $(py) $(PYTEST_ARGS) tests/distributed

test-floors: VENV := $(LITE)
test-floors: ## The casters and NumPy's tests with the oldest nanobind, pybind11 and NumPy that the requirements admit
	@$(BOOTSTRAP) build test-lite --package
	@$(with_path) $(PYTHON) tools/test_floors.py --venv $(VENV) --name $(NAME)

test-nvcc: VENV := .venv-nvcc
test-nvcc: ## Every header and the file of docs/devices.md by the nvcc of PyPI (130 MB)
	@$(BOOTSTRAP) build nvcc
	@mkdir -p build/nvcc
	@$(with_path) $(py) tools/run_tests.py --name $(NAME) --no-ctest --build build/nvcc --python $(py) $(PYTEST_ARGS) tests/install/test_nvcc.py

test-old-torch: VENV := .venv-old-torch
test-old-torch: BUILD := build/old-torch
test-old-torch: ## The torch tests on PyTorch 2.9, without its newer C interfaces (gigabytes); skipped where it cannot be had
	@if $(BOOTSTRAP) build old-torch --package; then \
		$(with_path) $(call configure,dev,$(BUILD),-DISTHMUS_TORCH=ON) \
		&& cmake --build $(BUILD) -j $(JOBS) --target isthmus_test_ext isthmus_torch_stable_ext isthmus_torch_test_ext \
		&& $(py) -m pytest -o pythonpath=$(BUILD)/ext $(PYTEST_ARGS) tests/torch tests/install/test_one_wheel.py; \
	else echo "skipped: requirements/old-torch.txt cannot be installed here"; fi

sanitize: VENV := $(LITE)
sanitize: ## The tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(BOOTSTRAP) build test-lite
	@$(call build,asan,build/asan,)
	@$(with_path) cmake --install build/asan --prefix build/asan/site > build/asan/install.log
	@$(with_path) $(py) tools/run_tests.py --name $(NAME) --sanitizer asan --build build/asan --python $(py) \
		$(PYTEST_ARGS) $(wildcard tests/python tests/package tests/operators)

soak: ## Minutes of exchanges on many threads in builds of every kind, and the suite under hostile allocators (SOAK_ARGS="--short")
	@$(BOOTSTRAP) build test --package
	@$(call build,dev,$(BUILD),-DISTHMUS_TORCH=ON)
	@$(with_path) $(py) tests/soak/run.py --pythonpath $(BUILD)/ext $(SOAK_ARGS)

sanitize-threads: ## The storms under ThreadSanitizer, without the GIL, by the CPython that ISTHMUS_TSAN_PYTHON names (docs/threads.md)
	@$(BOOTSTRAP) build test --package
	@$(with_path) ISTHMUS_TSAN_PYTHON=$(ISTHMUS_TSAN_PYTHON) $(py) tests/soak/run.py --only free-threaded $(SOAK_ARGS)

sweep-allocations: ## Every public function, each of its allocations failing in turn; minutes (SWEEP_ARGS="--short", "--only WORD", "--world NAME")
	@$(BOOTSTRAP) build test --package
	@$(call build,dev,$(BUILD),-DISTHMUS_TORCH=ON)
	@$(with_path) $(py) tests/allocations/sweep.py --pythonpath $(BUILD)/ext $(SWEEP_ARGS)

mutate: ## Guards removed one at a time, each of which a test must see; days (MUTATE_ARGS="--together": an hour, "--together --only core": minutes)
	@$(BOOTSTRAP) build test --package
	@$(with_path) $(py) tools/mutate.py --python $(py) $(MUTATE_ARGS)

reliability: ## What the peers do with hostile objects and at the edges of life, into docs/reliability.md (RELIABILITY_ARGS="--no-docs")
	@$(BOOTSTRAP) build test
	@$(with_path) $(py) benchmarks/reliability.py $(RELIABILITY_ARGS)

lint: ## clang-format, clang-tidy, ruff, mypy
	@$(BOOTSTRAP) build test-lite lint
	@$(call configure,dev,build/lint,-DISTHMUS_BUILD_PACKAGE=ON -DISTHMUS_UNITY_BUILD=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON)
	@$(py) tools/lint.py --venv $(VENV) --build build/lint

format: ## Format the sources in place
	@$(BOOTSTRAP) lint
	@$(py) tools/lint.py --venv $(VENV) --fix

bench: ## The benchmarks, Isthmus and other libraries in one run, into docs/benchmark (BENCH_ARGS="--quick"; benchmarks/report.py makes the page of the last run)
	@$(BOOTSTRAP) build bench --package
	@$(with_path) $(py) benchmarks/bench.py $(BENCH_ARGS)

bench-distributed: VENV := .venv-distributed
bench-distributed: ## Ray, Dask, queues and a data loader: the engines' own ways beside ours (ENGINES_ARGS="--quick --picture FILE")
	@$(BOOTSTRAP) build distributed --package
	@$(with_path) $(py) -c "import matplotlib" 2>/dev/null || $(py) -m pip install --disable-pip-version-check --quiet matplotlib
	@$(py) benchmarks/engines.py $(ENGINES_ARGS)

bench-threads: VENV := $(LITE)
bench-threads: ## Exchanges of 1 to 8 threads, with the GIL, and by the CPython without it that ISTHMUS_FREE_THREADED_PYTHON names (docs/threads.md)
	@$(BOOTSTRAP) build test-lite
	@$(with_path) $(py) benchmarks/scaling.py $(if $(ISTHMUS_FREE_THREADED_PYTHON),--also $(ISTHMUS_FREE_THREADED_PYTHON)) $(SCALING_ARGS)

cost-study: ## Zero-copy beside copies and serialisation, 1 kB to 1 GB (docs/cost_study.md)
	@$(BOOTSTRAP) build test --package
	@$(with_path) $(py) -c "import matplotlib" 2>/dev/null || $(py) -m pip install --disable-pip-version-check --quiet matplotlib
	@$(py) benchmarks/cost_study.py --picture docs/cost_study.png $(COST_ARGS)

wheel: ## A wheel in dist/
	@$(BOOTSTRAP) build
	@$(py) -m pip wheel --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir dist .

wheels: ## A manylinux wheel for every CPython found, each tried where there is no compiler (WHEELS="3.11 3.12")
	@$(PYTHON) tools/wheels.py $(WHEELS)

docs: VENV := .venv-docs
docs: ## The documentation as a site in build/site: guides, references, search; every warning is an error
	@$(BOOTSTRAP) docs
	@$(py) tools/site/build_site.py
	@mkdir -p build/docs
	@$(with_path) $(py) tools/run_tests.py --name $(NAME) --no-ctest --build build/docs --python $(py) $(PYTEST_ARGS) tests/docs

clean: ## Remove what was built (the environments stay)
	rm -rf build dist
