# The few commands one needs; the work is in CMake presets and scripts/.
.DEFAULT_GOAL := build
.PHONY: build demo test check check-all tidy install format setup clean help

build:  ## build into build/ (release); the tool is build/bin/r2ccl
	@cmake --preset release >/dev/null || { echo "If a package is missing, 'make setup' installs it."; exit 1; }
	@cmake --build --preset release

demo:  ## install what is missing, build, and watch AllReduce survive NIC failures (with root on real interfaces)
	@scripts/setup build
	@cmake --preset release >/dev/null
	@cmake --build --preset release --target r2ccl
	@build/bin/r2ccl demo --report build/demo/report.html

test:  ## install what is missing, build, run all tests that fit this machine (at most 10 minutes on two cores)
	@scripts/test

check:  ## second compiler, sanitizers, fuzzers, clang-tidy of what changed (25 minutes more)
	@scripts/check

check-all:  ## the same, whole where `make check` takes samples: all of clang-tidy, long tests, longer fuzzing
	@scripts/check --all

tidy:  ## clang-tidy over everything
	@scripts/tidy

PREFIX ?= /usr/local
install:  ## build what is shipped and install it: make install PREFIX=/opt/r2ccl
	@cmake --preset release >/dev/null
	@cmake --build --preset release --target shipped
	@cmake --install build --prefix $(PREFIX)

format:  ## format all C++ files
	@scripts/format

setup:  ## only install what is missing (Debian packages; root or sudo)
	@scripts/setup

clean:  ## remove everything that was built
	rm -rf build build-*

help:  ## this list
	@sed -n 's/^\([a-z-]*\):  ## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16
