# make help lists what there is to do.

PREFIX  ?= /usr
DESTDIR ?=
GO      ?= go
# For compiling alone: with less garbage collection the compiler takes 30 % less CPU time, and twice
# the memory.
COMPILE := GOGC=800 GOMEMLIMIT=2GiB $(GO)

# safe.directory: root builds what another user has cloned.
VERSION := $(shell git -c safe.directory='*' describe --tags --match 'v[0-9]*' --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X node-partition.io/node-partition/internal/buildversion.set=$(VERSION)
# The Makefile sets the version. go build must not ask git, which refuses a checkout owned by
# another user.
export GOFLAGS := $(GOFLAGS) -buildvcs=false

# Expensive artifacts are kept here, outside the tree: disks, built programs, the linter. tests/lab
# uses the same folder.
CACHE := $(or $(NODE_PARTITION_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/node-partition)

GOLANGCI_LINT_VERSION := v2.12.2

# One runner for all tests, always with the same flags, so that go test's cache has the results of
# tests that have passed.
RUN_TESTS := $(GO) run ./tests/run
# Tests of the module in the folder $(1), with $(2) for the runner. The lab limits how many machines
# run at once. go test does not track virtual machines, so node tests are never cached.
NODE_TESTS = $(RUN_TESTS) -C $(1) -tests $(2) -- -tags node -count 1 -p 8 -parallel 8
# In tests/e2e, a module of its own as the lab is.
NODE_PACKAGES := node-partition.io/node-partition/tests/lab ./kubeapi .
# Modules of their own, whose dependencies are not those of the programs: the lab, the tests on it,
# dashboards and rules, the image, the controller, its chart with Helm's libraries and the policies.
# The lab, its tests, the controller and the chart have the programs' versions of what both compile.
MODULES = tests/lab tests/e2e tests/fleet deploy/generate deploy/image rollout rollout/charttest
# And those whose dependencies take minutes to compile: packages, the ways without the controller,
# and the judge of sizes.
SLOW_MODULES = deploy/package deploy/fleet tests/sizebench
VET = for module in . $(MODULES); do $(COMPILE) -C $$module vet -tags node ./... || exit; done
# The controller and its chart on an API server.
ROLLOUT_TESTS = $(call NODE_TESTS,rollout,$(1)) -timeout 1h $(2) ./apitest
HELM_TESTS = $(call NODE_TESTS,rollout/charttest,-run '^TestHelm') -timeout 1h .
# Each kind of node has to be seen by at least one test.
WANT = -want "$${LAB_FLAVOURS:-$$(tests/lab/lab flavours)}"
# The lines of tests/long as a pattern of go test, each for a whole name.
LONG = $(shell sed -n 's|[.+]|\\&|g; s|\*|.*|g; s|/|$$/^|g; s|^Test.*|^&$$|p' tests/long | paste -sd '|')
# On kinds of nodes that are made by name alone: make test-arm64, make test-older.
NAMED = $(if $(findstring arm64,$(LAB_FLAVOURS)),,|^TestArm64$$)$(if $(findstring kubelet-1.35,$(LAB_FLAVOURS)),,|^TestOlderKubelet$$)$(if $(findstring selinux,$(LAB_FLAVOURS)),,|^TestSELinux$$)
# The one kind that "make e2e RUN=..." takes.
ONE := $(or $(FLAVOUR),$(LAB_FLAVOURS),trixie)

# The folder of the programs.
BIN ?= bin

.PHONY: all build check-prefix install uninstall packages sysext image chart release test-packages test-ways pictures test test-unit e2e test-nodes test-rollout test-arm64 test-older soak \
	vet lint golangci-lint bench league fuzz guards mutants demo clean help setup-node generate

all: build

BUILD_PROGRAMS = CGO_ENABLED=0 $(COMPILE) build -trimpath -tags urfave_cli_no_docs -ldflags '$(LDFLAGS)' -o $(BIN)/
# The files of a node, which partition-installer has as a part of itself.
PAYLOAD = $(BIN)/partition-generator $(BIN)/partition-monitor units/partition-monitor.service units/node-partition.catalog

## build: static binaries in bin/
build:
	@tests/setup go
	$(BUILD_PROGRAMS) ./cmd/...
	@for file in $(PAYLOAD); do \
		printf '%s"%s":"%s"' "$${comma:-{\"Replace\":{}" "$(CURDIR)/cmd/partition-installer/payload/$${file##*/}" "$$(realpath "$$file")"; comma=,; \
	done >$(BIN)/payload.json; echo '}}' >>$(BIN)/payload.json
	$(BUILD_PROGRAMS) -overlay $(BIN)/payload.json ./cmd/partition-installer

# For "sudo make install" after "make build", where root may have no Go.
PROGRAMS = $(BIN)/partition-generator $(BIN)/partition-monitor
$(PROGRAMS) &: $(shell find cmd pkg internal -name '*.go') go.mod go.sum
	$(MAKE) build

# Where systemd looks for units and generators: below /usr and /usr/local, and for every other
# PREFIX in /etc, which is writable where /usr is not.
SYSTEMD_DIR ?= $(if $(filter /usr /usr/local,$(PREFIX)),$(PREFIX)/lib/systemd,/etc/systemd)
MONITOR     = $(PREFIX)/bin/partition-monitor
DOCS        = $(PREFIX)/share/doc/node-partition
# The lines of the list, with the values of its variables, and a line for each file of a pattern.
LISTED      = sed -e '/^\#/d' -e 's|$${BIN}|$(BIN)|' -e 's|$${PREFIX}|$(PREFIX)|' -e 's|$${SYSTEMD_DIR}|$(SYSTEMD_DIR)|' deploy/installed | \
	while read -r mode pattern path; do for source in $$pattern; do \
		case $$path in */) echo "$$mode $$source $$path$${source\#\#*/}" ;; *) echo "$$mode $$source $$path" ;; esac; \
	done; done
# The destinations of an installation, for the next one and for its end.
RECORD      = $(DOCS)/installed

# The container runtime starts the plugins in this folder, named NN-NAME, before it serves its first
# request. 91 is after 90, the service's number.
NRI_PLUGINS ?= /opt/nri/plugins
PLUGIN      = $(NRI_PLUGINS)/91-node-partition

# A path that needs no quoting in a unit or in a shell.
check-prefix:
	@printf %s '$(PREFIX)' | grep -Eqx '/[A-Za-z0-9/._+-]*[A-Za-z0-9._+-]' || \
		{ echo 'PREFIX=$(PREFIX): want an absolute path of letters, digits and /._+- that does not end in /' >&2; exit 1; }

## install: what is needed on a node, into DESTDIR, below PREFIX; with PRELAUNCHED=1 the NRI plugin for k3s and RKE2 too
install: check-prefix $(PROGRAMS)
	@# A file gets its name when it is whole, by a rename: a running program is never written to, and a
	@# reload of systemd meanwhile runs one generator, the old or the new. It leaves out hidden files.
	@$(LISTED) | while read -r mode source path; do \
		to='$(DESTDIR)'"$$path"; new="$${to%/*}/.$${to##*/}.new"; \
		echo "$$source -> $$to"; \
		{ install -D -m "$$mode" "$$source" "$$new" && \
			case $$path in \
			*.service) sed -i 's|^ExecStart=/usr/bin/partition-monitor |ExecStart=$(MONITOR) |' "$$new" ;; \
			*/man/*) sed -i 's|@VERSION@|$(VERSION)|' "$$new" ;; \
			esac && mv -fT "$$new" "$$to"; } || { rm -f "$$new"; exit 1; }; \
	done
	@$(LISTED) | awk '{print $$3}' >'$(DESTDIR)$(RECORD).new'
	@# What an earlier version has installed and this one does not.
	@if [ -e '$(DESTDIR)$(RECORD)' ]; then \
		grep -vxF -f '$(DESTDIR)$(RECORD).new' '$(DESTDIR)$(RECORD)' | \
			while read -r path; do rm -f '$(DESTDIR)'"$$path" || exit; done; \
	fi
	@mv '$(DESTDIR)$(RECORD).new' '$(DESTDIR)$(RECORD)'
	@find '$(DESTDIR)$(DOCS)' -depth -type d -empty -delete
ifneq ($(filter-out 0 no,$(PRELAUNCHED)),)
	install -d '$(DESTDIR)$(NRI_PLUGINS)'
	ln -sfn '$(MONITOR)' '$(DESTDIR)$(PLUGIN)'
endif

## uninstall: remove what install has installed, with the same DESTDIR and PREFIX; switch the partition off before
uninstall: check-prefix
	@{ $(LISTED) | awk '{print $$3}'; cat '$(DESTDIR)$(RECORD)' 2>/dev/null; echo '$(RECORD)'; } | \
		while read -r path; do rm -f '$(DESTDIR)'"$$path" || exit; done
	@# Not the link of an installation below another PREFIX.
	if [ "$$(readlink '$(DESTDIR)$(PLUGIN)')" = '$(MONITOR)' ]; then rm -f '$(DESTDIR)$(PLUGIN)'; fi
	@if [ -d '$(DESTDIR)$(DOCS)' ]; then find '$(DESTDIR)$(DOCS)' -depth -type d -empty -delete; fi
	@echo 'A partition that runs keeps its limits until the next boot or "systemctl daemon-reload".'

# The last commit's time is the time of all files, so that the same commit gives the same bytes.
packages image chart release: export SOURCE_DATE_EPOCH := $(or $(SOURCE_DATE_EPOCH),$(shell git -c safe.directory='*' log -1 --format=%ct 2>/dev/null))
# What the packages are for, and the number of a package in its version.
ARCHES = amd64 arm64
BUILD = 1
MAINTAINER = Node System Partition maintainers <maintainers@node-partition.example>
PACKAGES = $(BIN)/packages
FORMATS = deb rpm
PACKAGE = VERSION='$(VERSION)' BUILD='$(BUILD)' MAINTAINER='$(MAINTAINER)' deploy/package/build
# The programs for an architecture, and in the folder stage beside them what make install installs.
STAGE = dir=$(BIN)/linux-$$arch && \
	$(MAKE) --no-print-directory build GOARCH=$$arch BIN=$$dir && rm -rf "$$dir/stage" && \
	$(MAKE) -s --no-print-directory install GOARCH=$$arch BIN=$$dir DESTDIR=$$dir/stage PREFIX=/usr SYSTEMD_DIR=/usr/lib/systemd PRELAUNCHED= >/dev/null

## packages: deb and rpm for amd64 and arm64, or ARCHES=, in bin/packages; the same commit gives the same bytes
packages:
	@for arch in $(ARCHES); do $(STAGE) && $(PACKAGE) $$arch $$dir '$(PACKAGES)' $(FORMATS) || exit; done

## sysext: system extensions for hosts with a read-only /usr, for amd64 and arm64, or ARCHES=, in bin/sysext; needs mksquashfs
sysext:
	@$(MAKE) --no-print-directory packages PACKAGES='$(BIN)/sysext' FORMATS=sysext

IMAGE = $(BIN)/image
CHART = $(BIN)/chart
# A tar file of the image. Without it there is the layout alone.
IMAGE_ARCHIVE =
TAR = tar --format=ustar --sort=name --mtime="@$$SOURCE_DATE_EPOCH" --owner=root:0 --group=root:0 --mode=u=rwX,go=rX

## image: the image of the programs for nodes of a cluster, as an OCI layout in bin/image; the same commit gives the same bytes
## chart: the same, and the Helm chart and install.yaml that name the image by its digest, in bin/chart
image chart:
	@for arch in $(ARCHES); do \
		GOARCH=$$arch CGO_ENABLED=0 $(COMPILE) -C rollout build -trimpath -ldflags '$(LDFLAGS)' -o $(abspath $(BIN))/linux-$$arch/ ./cmd/partition-rollout && \
		dir=$(BIN)/linux-$$arch && $(MAKE) --no-print-directory build GOARCH=$$arch BIN=$$dir && \
			$(TAR) -cf $$dir/image.tar LICENSE -C rollout third-party-licenses -C '$(abspath $(BIN))'/linux-$$arch partition-rollout partition-installer || exit; \
	done
	@digest=$$($(GO) -C deploy/image run . -version '$(VERSION)' -layout '$(abspath $(IMAGE))' \
		$(foreach arch,$(ARCHES),-layer $(arch)='$(abspath $(BIN))/linux-$(arch)/image.tar')) && echo "$$digest" && \
	$(if $(filter chart,$@),deploy/image/chart '$(VERSION)' "$$digest" '$(CHART)',:)
	$(if $(IMAGE_ARCHIVE),@$(TAR) -cf '$(IMAGE_ARCHIVE)' -C '$(IMAGE)' blobs index.json oci-layout)

RELEASE = $(BIN)/release

# A command that signs the file after it, such as SIGN='gpg --armor --detach-sign'.
SIGN =

## release: packages, system extensions, archives, installers, image, chart, install.yaml, the plugin of kubectl, SBOMs, sources and SHA256SUMS in bin/release, of a commit with a tag; SIGN= is a command that signs SHA256SUMS
release:
	@case '$(VERSION)' in *-dirty | *-[0-9]*-g[0-9a-f]* | [!v]* | '') \
		echo 'version $(VERSION): want a commit with a tag such as v0.1.0, and no changes' >&2; exit 1 ;; \
	esac
	@rm -rf '$(RELEASE)'
	@# First: there is an SBOM of the controller, too.
	@$(MAKE) --no-print-directory chart VERSION='$(VERSION)' CHART='$(RELEASE)' \
		IMAGE_ARCHIVE='$(RELEASE)/node-partition-$(VERSION:v%=%).oci.tar'
	@$(MAKE) --no-print-directory packages VERSION='$(VERSION)' PACKAGES='$(RELEASE)' FORMATS='deb rpm archive sysext sbom'
	@for arch in $(ARCHES); do \
		cp '$(BIN)'/linux-$$arch/partition-installer '$(RELEASE)/partition-installer-$(VERSION:v%=%)-linux-'$$arch || exit; \
	done
	@git -c safe.directory='*' archive --format=tar --prefix='node-partition-$(VERSION:v%=%)/' HEAD | gzip -n9 >'$(RELEASE)/node-partition-$(VERSION:v%=%).tar.gz'
	@plugin=kubectl-node_partition && archive=$$plugin-$(VERSION:v%=%).tar.gz && \
		$(TAR) -cf - LICENSE -C deploy/kubectl $$plugin | gzip -n9 >'$(RELEASE)'/$$archive && \
		sum=$$(sha256sum <'$(RELEASE)'/$$archive) && home=$$(sed -n 's/^homepage: //p' deploy/package/nfpm.yaml) && \
		sed "1d; s|@HOME@|$$home|; s|@VERSION@|$(VERSION)|; s|@NUMBER@|$(VERSION:v%=%)|; s|@SHA256@|$${sum%% *}|" \
			deploy/kubectl/krew.yaml >'$(RELEASE)/node-partition.krew.yaml'
	@cd '$(RELEASE)' && sha256sum -- * >SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS
ifneq ($(SIGN),)
	@cd '$(RELEASE)' && $(SIGN) SHA256SUMS
endif
	@cat '$(RELEASE)/SHA256SUMS'

## test-packages: packages and a release, for amd64 and arm64, are built twice and compared, and checked by lintian and rpmlint; manual pages, scripts, YAML and spelling by their tools; three minutes
test-packages:
	@tests/setup packages
	@# Not from the cache of go test, which does not look at files outside of a module.
	$(COMPILE) -C deploy/package test -count 1 -timeout 20m ./...
	@# Nor at what git and these tools read.
	$(COMPILE) test -tags style -count 1 ./tests/style

## test-ways: the files for many nodes without the controller, by ansible, cloud-init and parsers; before a release
test-ways:
	@tests/setup ways
	$(COMPILE) -C deploy/fleet vet ./...
	$(COMPILE) -C deploy/fleet test -count 1 -timeout 20m ./...

## test: the tests, the shorter ones on real nodes too, in a quarter of an hour; installs what they need (Debian, root)
test: setup-node
	$(MAKE) test-unit
	$(MAKE) e2e RUN=

setup-node:
	@tests/setup node

# Only tests/... are without the race detector: they run programs that are built without it. It
# needs cgo, and so gcc.
## test-unit: the tests that need neither a node nor root, those of the programs with the race detector
test-unit:
	@tests/setup unit
	$(VET)
	CGO_ENABLED=1 $(RUN_TESTS) -- -race -timeout 20m ./cmd/... ./internal/... ./pkg/...
	$(RUN_TESTS) -- -timeout 20m ./tests/...
	@# Not from the cache of go test, which does not look at files outside of a module.
	for module in $(MODULES); do $(COMPILE) -C $$module test -count 1 ./... || exit; done

ifdef RUN
## e2e: one test on one node: make e2e RUN=TestConfigured [FLAVOUR=trixie]; without RUN all that make test runs on nodes
e2e: export LAB_FLAVOURS := $(ONE)
e2e: setup-node
	tests/lab/lab prepare $(ONE)
	$(call NODE_TESTS,tests/e2e,-run '$(RUN)' $(if $(FLAVOUR),-want $(FLAVOUR))) -timeout 1h $(NODE_PACKAGES)
else
# Each test on the kinds of nodes that differ in what it shows. Debian's testing, which changes
# every day, is not among them: a change of ours does not wait for one there (.ci/nightly).
STABLE = trixie bookworm crio
e2e: setup-node
	tests/lab/lab prepare $(STABLE)
	$(call NODE_TESTS,tests/e2e,-want "$${LAB_FLAVOURS:-$(STABLE)}") -timeout 80m -skip '$(LONG)$(NAMED)|^Test.+$$/^forky$$' $(NODE_PACKAGES)
	$(call ROLLOUT_TESTS,,-skip '$(LONG)')
	$(HELM_TESTS)
endif

## test-nodes: every test on each kind of node on which it shows another thing, or on FLAVOUR=, or those of RUN=; takes hours
test-nodes: export LAB_FLAVOURS := $(or $(FLAVOUR),$(LAB_FLAVOURS))
test-nodes: setup-node
	tests/lab/lab prepare $(FLAVOUR)
	LAB_EVERYTHING=1 $(call NODE_TESTS,tests/e2e,$(if $(RUN),-run '$(RUN)',$(WANT))) -timeout 3h -skip '^TestSoak$(NAMED)' $(NODE_PACKAGES)

## test-rollout: the controller on an API server with 5,000 Nodes, or those of RUN=; a quarter of an hour
test-rollout: setup-node
	$(call ROLLOUT_TESTS,$(if $(RUN),-run '$(RUN)'))
	$(HELM_TESTS)

## test-arm64: a boot of an emulated arm64 node, a pod that is placed and one that is evicted; before a release
test-arm64:
	$(MAKE) e2e RUN=TestArm64 FLAVOUR=arm64

## test-older: a boot of a node whose kubelet, 1.35, has no Pods API, a pod that is placed and one that is evicted; before a release
test-older:
	$(MAKE) e2e RUN=TestOlderKubelet FLAVOUR=trixie+kubelet-1.35

## soak: pods come and go for hours while the monitor's memory stays flat, and everything is killed, restarted and reloaded: every TestSoak, or those of RUN=
soak: setup-node
	tests/lab/lab prepare
	$(call NODE_TESTS,tests/e2e,-run '$(or $(RUN),^TestSoak)') -timeout 6h $(NODE_PACKAGES)

## pictures: docs/page.png, the page of the monitor as Chromium draws it; and that no page is too wide for a phone
pictures:
	@tests/setup pictures
	$(GO) test -tags pictures -count 1 -run '^TestPictures' ./internal/daemon/web

## site: the pages of docs as a site with search, for this version: bin/site/VERSION
site:
	@tests/setup site
	mkdocs build --strict --config-file deploy/site/mkdocs.yml --site-dir "$(abspath $(BIN))/site/$(VERSION)"
	@# runbook_url names the file of the sources.
	ln -sfn runbooks "$(BIN)/site/$(VERSION)/runbooks.md"
	$(GO) test -tags pictures -count 1 ./deploy/site

## recording: the moving picture of README, from a node on which a log collector leaks
recording: setup-node
	@tests/setup recording
	tests/lab/lab prepare trixie
	$(GO) -C tests/e2e test -tags 'node pictures' -count 1 -timeout 20m -run '^TestRecording$$' .

## vet: gofmt, go vet
vet:
	@tests/setup go
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'not formatted: run gofmt -w on these' >&2; exit 1; }
	$(VET)

## lint: gofmt, go vet, golangci-lint
lint: vet
	@tests/golangci-lint $(GOLANGCI_LINT_VERSION) run ./...
	@for module in $(MODULES) $(SLOW_MODULES); do \
		(cd $$module && '$(CURDIR)/tests/golangci-lint' $(GOLANGCI_LINT_VERSION) run ./...) || exit; \
	done

## generate: the Prometheus operator's rules, licences and completions, in deploy; the options, in units and man; the schema; the definition of NodePartition; DOCS_URL= is the address that you serve docs at
generate: export DOCS_URL := $(DOCS_URL)
generate:
	@tests/setup go
	$(GO) -C deploy/generate run . ..
	$(GO) test ./cmd/partition-monitor -run '^Test(Options|Completions)AreWritten$$' -count 1 -update
	$(GO) test ./tests/schema -run '^Test(Schema|Manual)$$' -count 1 -update
	$(GO) -C rollout test ./manifest -run '^TestDefinition$$' -count 1 -update
	$(GO) -C rollout/charttest test . -run '^TestInstall$$' -count 1 -update
	$(GO) test ./tests/licences -count 1 -update

# Built ahead: it takes minutes, once.
golangci-lint:
	@tests/setup go
	@tests/golangci-lint $(GOLANGCI_LINT_VERSION) version

# On a machine that does nothing else: what else it does costs precision, and the limits stay.
## bench: ratios, each measured in one run: the generator's to systemd's own, the monitor's on nodes, with limits
bench: setup-node
	@tests/setup bench
	$(GO) -C tests/e2e test -run '^$$' -bench . -benchtime 200x ./nodebench/generator
	$(GO) -C tests/e2e run ./nodebench $(BENCH_FLAGS)

LEAGUE_ROUNDS ?= 50

## league: what ends pods when memory is short, ours and others, with each load; LEAGUE_FLAGS='-keepers ours -loads burst'; hours
league: setup-node
	$(GO) -C tests/e2e run ./league -raw $(CURDIR)/bin/league.jsonl -rounds $(LEAGUE_ROUNDS) $(LEAGUE_FLAGS)

FUZZTIME ?= 60s

## fuzz: a minute of each fuzz test, or FUZZTIME=5s; every parser of foreign text has one
fuzz:
	@tests/setup go
	tests/fuzz $(FUZZTIME)

MUTANTS ?= $(shell grep -v '^\#' tests/mutants/packages)

## guards: remove the guards of tests/mutants/guards one by one, and see which no test misses; GUARD=regexp for some
guards:
	@tests/setup unit
	$(GO) run ./tests/mutants -guards '$(or $(GUARD),.)'

## mutants: make guards; then change the rules place by place, and see which changes no test notices; half an hour
mutants:
	@tests/setup unit
	$(GO) run ./tests/mutants $(if $(filter file,$(origin MUTANTS)),-guards .) $(MUTANTS)

# The lab builds the programs beside the node. They, the lab's command and the kubelet leave out
# debugging information in the same way: what they have in common is compiled once.
## demo: boot a node with a system partition and show it; FLAVOUR=trixie for another kind of node
demo: export GOFLAGS := $(GOFLAGS) -gcflags=all=-dwarf=false -gcflags=std=
demo:
	@tests/setup lab
	@tests/lab/lab demo $(if $(FLAVOUR),--flavour '$(FLAVOUR)') --build "$(BUILD_PROGRAMS) ./cmd/partition-generator ./cmd/partition-monitor"

## clean: remove bin/; what is cached stays
clean:
	rm -rf bin
	@echo 'The cache is $(CACHE); remove it after "tests/lab/lab down --all".'

## help: this list
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)
