# make help lists what there is to do.

PREFIX  ?= /usr
DESTDIR ?=
GO      ?= go

# safe.directory: root builds what another user has cloned.
VERSION := $(shell git -c safe.directory='*' describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
# The version is ours to say; git's word on the checkout fails where it belongs to another user.
export GOFLAGS := $(GOFLAGS) -buildvcs=false

# What is expensive is kept here, outside the tree: disks, built programs, this linter. tests/lab uses the same folder.
CACHE := $(or $(NODE_PARTITION_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/node-partition)

GOLANGCI_LINT_VERSION := v2.12.2

E2E_FLAGS ?= -timeout 70m
# go test -v, and at the end once more what failed: these outputs are long.
NODE_TEST := $(GO) run gotest.tools/gotestsum@v1.13.0 --format standard-verbose -- -count=1

.PHONY: all build install test test-unit test-e2e test-nodes soak lint bench fuzz demo clean help setup-node

all: build

## build: static binaries in bin/
build:
	@tests/setup go
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

# For "sudo make install" after "make build", where root may have no Go.
PROGRAMS = bin/partition-generator bin/partition-monitor
$(PROGRAMS) &: $(shell find cmd pkg internal -name '*.go') go.mod go.sum
	$(MAKE) build

## install: what is needed on a node, into DESTDIR, below PREFIX; builds it where that was not done
install: $(PROGRAMS)
	install -D -m 0755 bin/partition-generator '$(DESTDIR)$(PREFIX)/lib/systemd/system-generators/partition-generator'
	install -D -m 0755 bin/partition-monitor '$(DESTDIR)$(PREFIX)/bin/partition-monitor'
	install -D -m 0644 units/partition-monitor.service '$(DESTDIR)$(PREFIX)/lib/systemd/system/partition-monitor.service'
	install -D -m 0644 units/node-partition.catalog '$(DESTDIR)$(PREFIX)/lib/systemd/catalog/node-partition.catalog'
	install -D -m 0644 man/partition-monitor.8 '$(DESTDIR)$(PREFIX)/share/man/man8/partition-monitor.8'
	install -D -m 0644 man/partition-generator.8 '$(DESTDIR)$(PREFIX)/share/man/man8/partition-generator.8'
	install -D -m 0644 units/node-partition.default '$(DESTDIR)$(PREFIX)/share/doc/node-partition/node-partition.default'

## test: the tests, those on real nodes too, within an hour; installs what they need (Debian, root)
test: setup-node
	$(MAKE) test-unit
	$(MAKE) test-e2e

setup-node:
	@tests/setup node

## test-unit: the tests that need no node
test-unit:
	@tests/setup unit
	$(GO) vet ./...
	$(GO) test -short $$($(GO) list ./... | grep -v -e /tests/e2e -e /tests/bench -e /tests/kubeapi -e /tests/nodebus -e /tests/nodebench)

## test-e2e: the tests on real nodes, which tests/lab boots; each on the kinds of nodes that differ in what it shows
test-e2e: setup-node
	tests/lab/lab prepare
	$(NODE_TEST) $(E2E_FLAGS) -run 'TestNode$$|TestControlPlane|TestNothingStaysBehind' ./tests/lab
	$(NODE_TEST) $(E2E_FLAGS) ./tests/kubeapi
	$(NODE_TEST) $(E2E_FLAGS) ./tests/nodebus
	$(NODE_TEST) -short $(E2E_FLAGS) -skip '^TestSoak' ./tests/e2e

## test-nodes: every test on every kind of node; takes an hour more
test-nodes: setup-node
	tests/lab/lab prepare
	$(NODE_TEST) -timeout 3h -run '^TestNode(ControlPlane|Streams)$$' ./tests/lab
	$(NODE_TEST) -timeout 3h -skip '^TestSoak' ./tests/e2e

## soak: hundreds of pods come and go on each kind of node while everything is killed, restarted and reloaded; takes an hour
soak: setup-node
	tests/lab/lab prepare
	$(NODE_TEST) -timeout 3h -run '^TestSoak' ./tests/e2e

## lint: gofmt, go vet, golangci-lint
lint:
	@tests/setup go
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'not formatted: run gofmt -w on these' >&2; exit 1; }
	$(GO) vet ./...
	@tests/golangci-lint $(GOLANGCI_LINT_VERSION) run ./...

# On a machine that does nothing else: what else it does costs precision, and the limits stay.
## bench: ratios, each measured in one run: the generator's to systemd's own, the monitor's on nodes, with limits
bench: setup-node
	$(GO) test -run '^$$' -bench . -benchtime 200x ./tests/bench
	$(GO) run ./tests/nodebench $(BENCH_FLAGS)

## fuzz: a minute of each fuzz test
fuzz:
	$(GO) test -run '^$$' -fuzz FuzzUnits -fuzztime 60s -fuzzminimizetime 50x ./pkg/slices
	$(GO) test -run '^$$' -fuzz FuzzKubelet -fuzztime 60s -fuzzminimizetime 50x ./internal/kubeletconfig

## demo: boot a node with a system partition and show it
demo: setup-node build
	@$(GO) run ./tests/demo

## clean: remove bin/; what is cached stays
clean:
	rm -rf bin
	@echo 'The cache is $(CACHE); remove it after "tests/lab/lab down --all".'

## help: this list
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)
