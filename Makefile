# make help lists what there is to do.

PREFIX  ?= /usr
DESTDIR ?=
GO      ?= go
# For compiling alone: with less garbage collection the compiler takes 30 % less CPU time, and twice the memory.
COMPILE := GOGC=800 GOMEMLIMIT=2GiB $(GO)

# safe.directory: root builds what another user has cloned.
VERSION := $(shell git -c safe.directory='*' describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
# The version is ours to say; git's word on the checkout fails where it belongs to another user.
export GOFLAGS := $(GOFLAGS) -buildvcs=false

# What is expensive is kept here, outside the tree: disks, built programs, this linter. tests/lab uses the same folder.
CACHE := $(or $(NODE_PARTITION_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/node-partition)

GOLANGCI_LINT_VERSION := v2.12.2

# One runner for all tests, with the same flags wherever it is called from: what has passed comes out of go test's cache.
RUN_TESTS := $(GO) run ./tests/run
# The lab limits how many machines run at once. A machine is no file that go test knows of: no result is kept.
NODE_TESTS := $(RUN_TESTS) -tags node -lines subtest -count 1 -p 8 -parallel 8
NODE_PACKAGES := ./tests/lab ./tests/kubeapi ./tests/e2e
# Modules of their own, whose dependencies are not those of the programs: dashboards and rules, and plots of what tests have seen.
MODULES = deploy/generate tests/plot
# Each kind of node has to be seen by at least one test.
WANT = -want "$${LAB_FLAVOURS:-$$(tests/lab/lab flavours)}"
# The lines of tests/long as a pattern of go test, each for a whole name.
LONG = $(shell sed -n 's|[.+]|\\&|g; s|\*|.+|g; s|/|$$/^|g; s|^Test.*|^&$$|p' tests/long | paste -sd '|')
# Each name of -run has to exist, unless only some kinds of nodes are asked for.
EACH = $(if $(LAB_FLAVOURS),,-each)
# In test-nodes alone: the streams of a node, which are the lab's own, and what takes many minutes and has tests without a node too: two
# nodes for the dashboard, memory pressure, CPU managers one by one, storms, a clock that is set, boots with a section that arrives late.
HOURS = ^TestSoak|^TestNode(ControlPlane|Streams)?$$|^Test(Dashboards|Floor|CPUManager|Storms|ClockStep|Arrival)$$
# The one kind that "make e2e RUN=..." takes.
ONE := $(or $(FLAVOUR),$(LAB_FLAVOURS),trixie)

.PHONY: all build check-prefix install uninstall test test-unit e2e test-long test-nodes soak vet lint golangci-lint bench fuzz race guards mutants demo clean help setup-node generate

all: build

## build: static binaries in bin/
build:
	@tests/setup go
	CGO_ENABLED=0 $(COMPILE) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

# For "sudo make install" after "make build", where root may have no Go.
BIN ?= bin
PROGRAMS = $(BIN)/partition-generator $(BIN)/partition-monitor
$(PROGRAMS) &: $(shell find cmd pkg internal -name '*.go') go.mod go.sum
	$(MAKE) build

# Where systemd looks for units and generators: below /usr and /usr/local, and for every other PREFIX in /etc, which is writable where
# /usr is not.
SYSTEMD_DIR ?= $(if $(filter /usr /usr/local,$(PREFIX)),$(PREFIX)/lib/systemd,/etc/systemd)
GENERATOR   = $(SYSTEMD_DIR)/system-generators/partition-generator
MONITOR     = $(PREFIX)/bin/partition-monitor
UNIT        = $(SYSTEMD_DIR)/system/partition-monitor.service
CATALOG     = $(PREFIX)/lib/systemd/catalog/node-partition.catalog
MANUALS     = $(PREFIX)/share/man/man8/partition-monitor.8 $(PREFIX)/share/man/man8/partition-generator.8
DOCS        = $(PREFIX)/share/doc/node-partition
SETTINGS    = $(DOCS)/node-partition.default
# For Grafana and Prometheus, which run elsewhere.
DASHBOARDS  = grafana/node-partition.json prometheus/alerts.yaml prometheus/recording.yaml prometheus/prometheusrule.yaml

# The container runtime starts what is here, named NN-NAME, before it serves its first request. After 90, which is the service's.
NRI_PLUGINS ?= /opt/nri/plugins
PLUGIN      = $(NRI_PLUGINS)/91-node-partition

# A path that can stand in a unit and in a shell as it is.
check-prefix:
	@printf %s '$(PREFIX)' | grep -Eqx '/[A-Za-z0-9/._+-]*[A-Za-z0-9._+-]' || \
		{ echo 'PREFIX=$(PREFIX): want an absolute path of letters, digits and /._+- that does not end in /' >&2; exit 1; }

## install: what is needed on a node, into DESTDIR, below PREFIX; with PRELAUNCHED=1 the NRI plugin for k3s and RKE2 too
install: check-prefix $(PROGRAMS)
	install -D -m 0755 $(BIN)/partition-generator '$(DESTDIR)$(GENERATOR)'
	install -D -m 0755 $(BIN)/partition-monitor '$(DESTDIR)$(MONITOR)'
	install -D -m 0644 units/partition-monitor.service '$(DESTDIR)$(UNIT)'
	sed -i 's|^ExecStart=/usr/bin/partition-monitor |ExecStart=$(MONITOR) |' '$(DESTDIR)$(UNIT)'
	install -D -m 0644 units/node-partition.catalog '$(DESTDIR)$(CATALOG)'
	for manual in $(MANUALS); do install -D -m 0644 man/$${manual##*/} "$(DESTDIR)$$manual" || exit; done
	install -D -m 0644 units/node-partition.default '$(DESTDIR)$(SETTINGS)'
	for file in $(DASHBOARDS); do install -D -m 0644 deploy/$$file "$(DESTDIR)$(DOCS)/$$file" || exit; done
ifneq ($(filter-out 0 no,$(PRELAUNCHED)),)
	install -d '$(DESTDIR)$(NRI_PLUGINS)'
	ln -sfn '$(MONITOR)' '$(DESTDIR)$(PLUGIN)'
endif

## uninstall: remove what install has installed, with the same DESTDIR and PREFIX; switch the partition off before
uninstall: check-prefix
	rm -f $(addprefix $(DESTDIR),$(GENERATOR) $(MONITOR) $(UNIT) $(CATALOG) $(MANUALS) $(SETTINGS) $(addprefix $(DOCS)/,$(DASHBOARDS)))
	@# Not the link of an installation below another PREFIX.
	if [ "$$(readlink '$(DESTDIR)$(PLUGIN)')" = '$(MONITOR)' ]; then rm -f '$(DESTDIR)$(PLUGIN)'; fi
	-rmdir '$(DESTDIR)$(DOCS)/grafana' '$(DESTDIR)$(DOCS)/prometheus' '$(DESTDIR)$(DOCS)' 2>/dev/null
	@echo 'A partition that runs keeps its limits until the next boot or "systemctl daemon-reload".'

## test: the tests, the shorter ones on real nodes too, in a quarter of an hour; installs what they need (Debian, root)
test: setup-node
	$(MAKE) test-unit
	$(MAKE) e2e RUN=

setup-node:
	@tests/setup node

## test-unit: the tests that need neither a node nor root, in two minutes
test-unit:
	@tests/setup unit
	$(COMPILE) vet -tags node ./...
	for module in $(MODULES); do $(COMPILE) -C $$module vet ./... || exit; done
	$(RUN_TESTS) -lines package ./...
	@# Not from the cache of go test, which does not look at files outside of a module.
	$(GO) -C deploy/generate test -count 1 ./...

ifdef RUN
## e2e: one test on one node: make e2e RUN=TestConfigured [FLAVOUR=trixie]; without RUN all that make test runs on nodes
e2e: export LAB_FLAVOURS := $(ONE)
e2e: setup-node
	tests/lab/lab prepare $(ONE)
	$(NODE_TESTS) -timeout 1h -each -run '$(RUN)' $(if $(FLAVOUR),-want $(FLAVOUR)) $(NODE_PACKAGES)
else
# Each test on the kinds of nodes that differ in what it shows.
e2e: setup-node
	tests/lab/lab prepare
	$(NODE_TESTS) -timeout 80m -skip '$(HOURS)|$(LONG)' $(WANT) $(NODE_PACKAGES)
endif

## test-long: the tests on real nodes that make test leaves out (tests/long), in half an hour
test-long: setup-node
	tests/lab/lab prepare
	$(NODE_TESTS) -timeout 80m $(EACH) -run '$(LONG)' $(WANT) $(NODE_PACKAGES)

## test-nodes: every test on every kind of node; takes hours
test-nodes: setup-node
	tests/lab/lab prepare
	LAB_EVERYTHING=1 $(NODE_TESTS) -timeout 3h -skip '^TestSoak' $(WANT) $(NODE_PACKAGES)

## soak: hundreds of pods come and go on each kind of node while everything is killed, restarted and reloaded; takes hours
soak: setup-node
	tests/lab/lab prepare
	$(NODE_TESTS) -timeout 3h -run '^TestSoak' $(NODE_PACKAGES)

# Not tests/..., which run programs that are built without the detector. It needs cgo, and so gcc.
## race: the tests of the programs with the race detector
race:
	@tests/setup race
	CGO_ENABLED=1 $(GO) test -race -timeout 20m ./cmd/... ./internal/... ./pkg/...

## vet: gofmt, go vet
vet:
	@tests/setup go
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'not formatted: run gofmt -w on these' >&2; exit 1; }
	$(COMPILE) vet -tags node ./...

## lint: gofmt, go vet, golangci-lint
lint: vet
	@tests/golangci-lint $(GOLANGCI_LINT_VERSION) run ./...
	@for module in $(MODULES); do \
		(cd $$module && '$(CURDIR)/tests/golangci-lint' $(GOLANGCI_LINT_VERSION) run ./...) || exit; \
	done

## generate: the dashboard and the rules for the Prometheus operator, in deploy
generate:
	@tests/setup go
	$(GO) -C deploy/generate run . ..

# Built ahead: it takes minutes, once.
golangci-lint:
	@tests/setup go
	@tests/golangci-lint $(GOLANGCI_LINT_VERSION) version

# On a machine that does nothing else: what else it does costs precision, and the limits stay.
## bench: ratios, each measured in one run: the generator's to systemd's own, the monitor's on nodes, with limits
bench: setup-node
	$(GO) test -run '^$$' -bench . -benchtime 200x ./tests/bench
	$(GO) run ./tests/nodebench $(BENCH_FLAGS)

FUZZTIME ?= 60s

## fuzz: a minute of each fuzz test, or FUZZTIME=5s; every parser of foreign text has one
fuzz:
	@tests/setup go
	tests/fuzz $(FUZZTIME)

# The rules, which are pure; files after a colon where the package holds more than those.
MUTANTS ?= pkg/slices pkg/slices/config pkg/slices/lowering internal/unitname internal/cgroupfs:memory.go pkg/evict:decide.go,estimate.go,execution.go,interval.go,pod.go,rank.go,snapshot.go,protected.go pkg/podmove:decide.go,movable.go,snapshot.go,weight.go

## guards: remove the guards of tests/mutants/guards one after another, and see which no test misses; GUARD=regexp for some
guards:
	@tests/setup unit
	$(GO) run ./tests/mutants -guards '$(or $(GUARD),.)'

## mutants: make guards; then change the rules at one place after another, and see which changes the unit tests let pass; takes half an hour
mutants:
	@tests/setup unit
	$(GO) run ./tests/mutants $(if $(filter file,$(origin MUTANTS)),-guards .) $(MUTANTS)

# With the flags of build: what both have in common is compiled once.
## demo: boot a node with a system partition and show it
demo: setup-node build
	@LAB_SOURCES='$(CURDIR)/tests/lab/sources' CGO_ENABLED=0 $(GO) run -trimpath ./tests/demo

## clean: remove bin/; what is cached stays
clean:
	rm -rf bin
	@echo 'The cache is $(CACHE); remove it after "tests/lab/lab down --all".'

## help: this list
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)
