# SPDX-License-Identifier: GPL-2.0
# The verbs; "make" prints them. README.md says what they are for.

export ARCH LANE ACCEL LINUX BASE BOOTS TREE FILELOCK_CACHE FILELOCK_MIRROR

SIDE ?= patched

help:
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20
	@echo
	@echo 'LINUX=/path/to/linux BASE=<revision>  an own tree instead of the packaged 7.3; it is never written to'
	@echo 'ACCEL=kvm|tcg  ARCH=x86_64|i386  BOOTS=n  FILELOCK_CACHE=dir  FILELOCK_MIRROR=url'
	@echo 'Status: 0; 1 a test fails or a call got dearer; 2 a run was lost or something could not be had'

compare: ## build base and patched, boot both, report what the series changes
	@harness/compare

native: ## time the lock calls on this CPU, inside a user-mode Linux
	@harness/native

rejudge: ## make the report again from the stored runs, boot nothing
	@python3 harness/report.py results/latest

publish: ## copy that report to published/, which the README shows
	@harness/publish

shell: ## boot the kernel of SIDE=patched|base with a busybox prompt
	@harness/shell $(SIDE)

check: ## the project's own tests
	@harness/check

mutants: ## does a test catch each wrong version of the series?
	@harness/mutants

prefixes: ## does each commit of the series build, and pass the tests it should?
	@harness/prefixes

tree: ## a kernel git tree with the series as commits, to edit and rebase in
	@harness/tree edit

series: ## write patches/ and the in-tree files from that tree
	@harness/tree series

sources: ## kernel sources without and with the series, in the cache
	@harness/tree sources

build: ## compile the kernel of SIDE
	@harness/build $(SIDE)

clean: ## remove the stored results; the cache stays
	rm -rf results

.PHONY: help compare native rejudge publish shell check mutants prefixes tree series sources build clean
