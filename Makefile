# make help lists what there is to do.

PREFIX  ?= /usr
DESTDIR ?=
GO      ?= go

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)

# What is expensive is kept here, outside the tree: packages, disks, built programs. tests/lab uses the same folder.
CACHE := $(or $(NODE_PARTITION_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/node-partition)

GOLANGCI_LINT_VERSION := v2.12.2
GOLANGCI_LINT := $(CACHE)/bin/golangci-lint-$(GOLANGCI_LINT_VERSION)

E2E_FLAGS ?= -timeout 45m

.PHONY: all build install test test-unit test-e2e lint bench fuzz demo clean help

all: build

## build: static binaries in bin/
build:
	@tests/setup go
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

## install: what is needed on a node, into DESTDIR, below PREFIX
install: build
	install -D -m 0755 bin/partition-generator '$(DESTDIR)$(PREFIX)/lib/systemd/system-generators/partition-generator'
	install -D -m 0644 man/partition-generator.8 '$(DESTDIR)$(PREFIX)/share/man/man8/partition-generator.8'
	install -D -m 0644 units/node-partition.default '$(DESTDIR)$(PREFIX)/share/doc/node-partition/node-partition.default'

## test: all tests, those on real nodes too; installs what they need (Debian, root)
test: test-unit test-e2e

## test-unit: the tests that need no node
test-unit:
	@tests/setup unit
	$(GO) vet ./...
	$(GO) test -short $$($(GO) list ./... | grep -v -e /tests/e2e -e /tests/bench)

## test-e2e: the tests on real nodes, which tests/lab boots
test-e2e:
	@tests/setup node
	tests/lab/lab prepare
	$(GO) test -count=1 -v $(E2E_FLAGS) -run 'TestNode|TestNothingStaysBehind' ./tests/lab
	$(GO) test -count=1 -v $(E2E_FLAGS) ./tests/e2e

## lint: gofmt, go vet, golangci-lint
lint: $(GOLANGCI_LINT)
	@tests/setup go
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'not formatted: run gofmt -w on these' >&2; exit 1; }
	$(GO) vet ./...
	'$(GOLANGCI_LINT)' run ./...

$(GOLANGCI_LINT):
	@tests/setup go
	@mkdir -p '$(@D)/build'
	@echo 'building golangci-lint $(GOLANGCI_LINT_VERSION), once'
	GOBIN='$(@D)/build' $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	mv '$(@D)/build/golangci-lint' '$@'

## bench: ratios against systemd's own programs, in one run
bench:
	@tests/setup unit
	$(GO) test -run '^$$' -bench . -benchtime 200x ./tests/bench

## fuzz: a minute of each fuzz test
fuzz:
	$(GO) test -run '^$$' -fuzz FuzzUnits -fuzztime 60s -fuzzminimizetime 50x ./pkg/slices
	$(GO) test -run '^$$' -fuzz FuzzKubelet -fuzztime 60s -fuzzminimizetime 50x ./internal/kubeletconfig

## demo: boot a node with a system partition and show it
demo: build
	@tests/setup node
	@$(GO) run ./tests/demo

## clean: remove bin/; what is cached stays, and "rm -r" of it is safe
clean:
	rm -rf bin
	@echo 'The cache is $(CACHE).'

## help: this list
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)
