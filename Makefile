# The front door. Each target does the set-up that it needs; `make help` lists them.
# Variables: WERROR=true turns warnings into errors in the release build too.

SHELL := /bin/sh
PYTHON := .venv/bin/python
WERROR ?= false
TIME ?= 60
RUNS ?=
BASE ?= HEAD

SANITIZE := -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 -Ddebug=true \
	"-Dc_args=-g3 -fno-omit-frame-pointer -fno-sanitize-recover=undefined -DKS_DEBUG"
export ASAN_OPTIONS ?= detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS ?= print_stacktrace=1

# $(call configure,FOLDER,OPTIONS): a folder that is configured keeps its options.
configure = @test -f $(1)/build.ninja || { echo "configuring $(1)/"; \
	meson setup $(1) $(2) >/dev/null || { cat $(1)/meson-logs/meson-log.txt; exit 1; }; }

.DEFAULT_GOAL := help
.PHONY: help setup build release dev build-clang build-fuzz demo test test-unit test-torch \
	test-all test-asan tsan torture bless golden-rules fuzz fuzz-long fuzz-smoke bench \
	claims claims-gpu bench-recorders bench-tuning bench-full bench-compare format format-check \
	tidy layers docs ci device-bundle device-test faults faults-gpu clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install everything that any target needs, except for bench
	@tools/setup.sh ci

## Building

build: ## release build: build/kscope is the program
	@tools/setup.sh demo
	$(call configure,build,-Dbuildtype=release -Dwerror=$(WERROR))
	@ninja -C build --quiet kscope extension

release: build ## the same as build

dev: ## build-asan/: address and undefined-behaviour sanitizers, -O1 -g3
	@tools/setup.sh test
	$(call configure,build-asan,$(SANITIZE) -Dwerror=true -Dfaults=true)
	@ninja -C build-asan --quiet

build-clang: ## build-clang/: release build by clang, warnings are errors
	@tools/setup.sh ci
	$(call configure,build-clang,-Dwerror=true --native-file tools/clang.ini)
	@ninja -C build-clang --quiet

build-fuzz: ## build-fuzz/: the libFuzzer targets, by clang with sanitizers
	@tools/setup.sh ci
	$(call configure,build-fuzz,$(SANITIZE) -Dfuzzers=true --native-file tools/clang.ini)
	@ninja -C build-fuzz --quiet fuzzers

## Trying it

DEMO_RUN = PATH="$(CURDIR)/.venv/bin:$$PATH" build/kscope run

demo: build ## profile two real training programs and show what slows them down
	@rm -rf build/demo build/demo-seo
	@$(DEMO_RUN) --steps 12:2:8 --out build/demo-seo \
		examples/train_seo.py --fault input.starved --epochs 2
	@$(DEMO_RUN) --out build/demo examples/train_images.py

## Testing

test: ## all tests: C units, golden cases, fuzz corpus, end to end (a quarter of an hour)
	@tools/setup.sh test
	@$(MAKE) --no-print-directory build
	@ninja -C build --quiet
	@$(PYTHON) tools/run_tests.py --build build

test-unit: ## C unit tests only (under 60 seconds)
	@tools/setup.sh test
	@$(MAKE) --no-print-directory build
	@ninja -C build --quiet
	@$(PYTHON) tools/run_tests.py --build build --only c

test-torch: ## only the tests that train with torch
	@tools/setup.sh test
	@$(MAKE) --no-print-directory build
	@ninja -C build --quiet
	@$(PYTHON) tools/run_tests.py --build build --only python -- -m torch

test-asan: dev ## C unit tests and golden cases under the sanitizers
	@$(PYTHON) tools/run_tests.py --build build-asan -- tests/golden

test-all: ## everything, slow cases too, then the same under sanitizers
	@KSCOPE_TEST_SLOW=1 $(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory test-asan torture tsan fuzz-smoke

torture: dev ## each allocation and each call of the system fails once
	@$(PYTHON) tools/run_tests.py --build build-asan --only c --suite torture

tsan: ## C unit tests under the thread sanitizer
	@tools/setup.sh test
	$(call configure,build-tsan,-Db_sanitize=thread -Db_lundef=false -Dbuildtype=debugoptimized)
	@ninja -C build-tsan --quiet
	@$(PYTHON) tools/run_tests.py --build build-tsan --only c

bless: build ## rewrite the expected output of a golden case: make bless CASE=area/case
	@test -n "$(CASE)" || { echo "usage: make bless CASE=area/case" >&2; exit 2; }
	@$(PYTHON) tests/golden/run_golden.py --bless $(CASE)

golden-rules: ## write the golden cases of all rules from their descriptions
	@tools/setup.sh test
	@rm -rf tests/golden/rules/*/
	@$(PYTHON) tests/support/write_rule_cases.py

# Inputs are short, because most of the time is spent on the long ones; choosing by how rare what an
# input reaches is takes a third of it.
FUZZ_LEN_kst := 64
FUZZ_LEN_query := 256
FUZZ_OPTIONS = -max_len=$(or $(FUZZ_LEN_$(TARGET)),1024) -entropic=0 -timeout=10 \
	-rss_limit_mb=512 -print_final_stats=1 -artifact_prefix=fuzz/out/$(TARGET)-

fuzz: build-fuzz ## fuzz one target: make fuzz TARGET=kineto TIME=60, or RUNS=10000000
	@test -n "$(TARGET)" || { \
		echo "usage: make fuzz TARGET=name [TIME=seconds|RUNS=executions]" >&2; exit 2; }
	@mkdir -p fuzz/out/$(TARGET)
	@build-fuzz/fuzz/fuzz_$(TARGET) $(if $(RUNS),-runs=$(RUNS),-max_total_time=$(TIME)) \
		$(FUZZ_OPTIONS) fuzz/out/$(TARGET) $(wildcard fuzz/corpus/$(TARGET))

fuzz-long: build-fuzz ## fuzz every target ten million times, or RUNS (an hour)
	@mkdir -p fuzz/out; for file in fuzz/fuzz_*.c; do \
		name=$${file#fuzz/fuzz_}; name=$${name%.c}; log=fuzz/out/$$name.log; \
		echo "fuzz-long: $$name"; \
		$(MAKE) --no-print-directory fuzz TARGET=$$name RUNS=$(or $(RUNS),10000000) \
			>$$log 2>&1 || { tail -n 40 $$log; exit 1; }; \
		sed -nE '/average_exec_per_sec|number_of_executed|peak_rss/p' $$log; \
	done

fuzz-smoke: build-fuzz ## replay the corpus of every fuzz target once
	@for target in build-fuzz/fuzz/fuzz_*; do \
		test -f "$$target" && test -x "$$target" || continue; \
		name=$${target##*/fuzz_}; echo "fuzz-smoke: $$name"; \
		"$$target" -runs=0 -verbosity=0 -close_fd_mask=3 fuzz/corpus/$$name || exit 1; \
	done

## Measuring

bench: build ## time reading, the report and the page against their peers, quick sizes
	@tools/setup.sh bench
	@$(PYTHON) bench/run.py
	@$(PYTHON) bench/instructions.py
	@$(PYTHON) bench/advice_share.py
	@$(PYTHON) bench/growth.py
	@$(PYTHON) bench/page.py --full
	@$(PYTHON) bench/snapshot.py

bench-recorders: build ## what recording costs: regions, functions, samples, monitor, and peers
	@$(PYTHON) bench/recorder_cost.py
	@$(PYTHON) bench/function_profiler.py
	@ninja -C build --quiet capture/libkscope_capture.so && $(PYTHON) bench/region_cost.py
	@$(PYTHON) bench/python_region.py
	@$(PYTHON) bench/stack_sampler.py
	@$(PYTHON) bench/monitor_cost.py
	@$(PYTHON) bench/debug_cost.py
	@tools/setup.sh peers
	@$(PYTHON) bench/peers_python.py

claims: build ## what usual advice gives on this machine: docs/claims.md
	@$(PYTHON) bench/claims.py --write docs/claims.md

claims-gpu: build ## the same on its GPU
	@$(PYTHON) bench/claims.py --device cuda --write docs/claims.md

bench-tuning: build ## the search for a loader's settings, and functions compared with themselves
	@$(PYTHON) bench/tune_loader.py
	@$(PYTHON) bench/compare_same.py

bench-full: build ## make bench at full size, medians of five
	@tools/setup.sh bench
	@$(PYTHON) bench/run.py --full

bench-compare: build ## this tree and another commit, alternating: make bench-compare BASE=HEAD~1
	@tools/setup.sh bench
	@$(PYTHON) bench/run.py --base $(BASE)

## Looking after the code

C_FILES = $$(git ls-files --cached --others --exclude-standard '*.c' '*.h' | \
	while read -r file; do test ! -f "$$file" || echo "$$file"; done)

# What the page is written in is laid out where its packages are, which the tests need, too.
PRETTIER = web/node_modules/.bin/prettier
PAGE_FILES = --config web/.prettierrc.json --ignore-path web/.prettierignore \
	--log-level warn web 'tests/page/*.mjs'

format: ## lay out C, Python and TypeScript code
	@tools/setup.sh demo
	@.venv/bin/clang-format -i $(C_FILES)
	@.venv/bin/ruff check --quiet --fix . && .venv/bin/ruff format --quiet .
	@test ! -x $(PRETTIER) || $(PRETTIER) --write $(PAGE_FILES)

format-check: ## fail when `make format` would change something
	@tools/setup.sh demo
	@.venv/bin/clang-format --dry-run $(C_FILES) 2>&1 | \
		sed -n 's/:[0-9]*:[0-9]*: warning:.*/: not as make format lays it out/p' | \
		sort -u | { ! grep .; }
	@.venv/bin/ruff check --quiet . && .venv/bin/ruff format --quiet --check .
	@test ! -x $(PRETTIER) || $(PRETTIER) --check $(PAGE_FILES)
	@test ! -x $(PRETTIER) || web/node_modules/.bin/tsc --noEmit --project web

tidy: ## the house rules that a script can check
	@tools/setup.sh demo
	@$(PYTHON) tools/tidy.py

layers: ## which folder may include which
	@tools/setup.sh demo
	@$(PYTHON) tools/layers.py

docs: ## links and the descriptions of the public API
	@tools/setup.sh demo
	@$(PYTHON) tools/tidy.py --only links --only documented-api

ci: ## exactly what continuous integration runs
	@tools/setup.sh ci
	@$(MAKE) --no-print-directory format-check tidy layers
	@$(MAKE) --no-print-directory build-clang
	@$(MAKE) --no-print-directory test-asan
	@$(MAKE) --no-print-directory fuzz-smoke
	@test ! -f build/build.ninja || meson setup --reconfigure build -Dwerror=true >/dev/null
	@$(MAKE) --no-print-directory test WERROR=true

device-bundle: ## pack what a bare machine with a GPU needs
	@tools/device_bundle.sh

device-test: ## run the tests of the bundle, on that machine
	@tools/device_bundle.sh --test

faults: build ## record the fault programs on the CPU, and fill their table in docs/faults.md
	@tools/setup.sh test
	@$(PYTHON) tests/faults/run_faults.py build/kscope build/faults --docs docs/faults.md

faults-gpu: ## the same on a GPU: here after a build, or in the bundle by tools/faults_gpu.sh
	@tools/faults_gpu.sh

clean: ## remove builds, not the environments
	@rm -rf build build-asan build-clang build-device build-fuzz build-tsan
