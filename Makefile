GO ?= go
MODULE := github.com/fanmail/fanmail
LINT := $(GO) tool -modfile=tools/go.mod golangci-lint
ACTIONLINT := $(GO) tool -modfile=tools/actionlint/go.mod actionlint
# golangci-lint in the modules two levels below.
LINT_BELOW := $(GO) tool -modfile=../../tools/go.mod golangci-lint
LINT_BENCH := $(GO) tool -modfile=../tools/go.mod golangci-lint
# Runs a command with a MongoDB server for the tests, which it finds or installs, and with the build tags that select the tests for it.
# It is built and then run, because "go run" would not pass signals on to it.
WITH_MONGODB = $(GO) build -o bin/withmongodb ./test/services/withmongodb && exec bin/withmongodb
# Lets a command find promtool, which is unpacked where there is none.
WITH_PROMTOOL = { command -v promtool >/dev/null || PATH="$$PATH:$$(test/services/prometheus/install)"; } && export PATH &&
# The packages that take longest come first, so that none of them runs alone at the end.
SLOW := ./internal/storetest/buckettest ./test/statemachine ./internal/cli ./internal/pebblestore
PACKAGES = $(SLOW) $(filter-out $(addprefix %,$(SLOW:.%=%)),$(shell $(GO) list ./...))
# Where goroutines meet: these packages start goroutines, or their values are used by several at a time, and the tests do both.
RACE := ./internal/mongostore/... $(addprefix ./internal/,fanout following httpapi inbox natsbus pebblestore publish rehydrate retention) ./pkg/bucket
# The tests that only the tag mongodb selects, in packages of which the others need none: test/testenv/tier.go lists the tags.
TAGGED = $(shell grep -lE '^//go:build mongodb' internal/app/*_test.go internal/cli/*_test.go)
TAGGED_TESTS = $(shell sed -nE 's/^func (Test[A-Za-z0-9]+).*/\1/p' $(TAGGED) | paste -sd '|' -)
# What takes long, or needs more than Go and a C compiler.
NIGHTLY := ./test/e2e ./test/faults ./test/statemachine/... ./test/security ./test/docs ./test/monitoring ./test/services/... ./test/testenv ./test/proof \
	./internal/fanout ./internal/identities ./pkg/follow
FUZZTIME ?= 10s
BENCH ?= .

.DEFAULT_GOAL := help

.PHONY: help
help: ## Print this list.
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: ## Publish, fan out and read an inbox in a temporary folder.
	$(GO) run ./cmd/fanmail demo

.PHONY: build
build: ## Build the commands into bin/.
	$(GO) build -trimpath -o bin/ ./cmd/...

# Without -count=1 a result could come from the cache although a file that the test reads has changed.
.PHONY: test
test: ## Run the tests that need only Go, on the embedded store and bus.
	$(GO) test -vet=off -count=1 -timeout=10m $(PACKAGES) # vet is one of the linters

.PHONY: test-race
test-race: ## Run the packages where goroutines meet with the race detector, and all tests of the MongoDB store. Needs a C compiler.
	$(WITH_MONGODB) $(GO) test -race -vet=off -count=1 -timeout=30m $(RACE)

.PHONY: test-mongodb
test-mongodb: ## Run the other tests that need a MongoDB server, and kill -9 on each store.
	$(WITH_MONGODB) $(GO) test -vet=off -count=1 -timeout=10m -run '^($(TAGGED_TESTS))$$' $(sort $(dir $(addprefix ./,$(TAGGED))))
	GOFLAGS="$(GOFLAGS) -tags=long" && export GOFLAGS && \
		$(WITH_MONGODB) $(GO) test -vet=off -count=1 -timeout=15m -run '^(TestFromPublishToInbox|TestKillNine|TestFollowersEqualPages)$$' ./test/e2e

.PHONY: test-nightly
# One package at a time: each starts dozens of programs, and two of them beside each other take longer than one after the other.
test-nightly: ## Run what takes long. Needs what .ci/run installs: a C compiler, curl, openssl, Python, Node.js and systemd-analyze.
	GOFLAGS="$(GOFLAGS) -tags=long,hosttools" && export GOFLAGS && \
		$(WITH_PROMTOOL) $(WITH_MONGODB) $(GO) test -vet=off -count=1 -p=1 -parallel=3 -timeout=60m $(NIGHTLY)
	GOFLAGS="$(GOFLAGS) -tags=long" && export GOFLAGS && $(WITH_MONGODB) $(GO) test -vet=off -count=1 -timeout=15m -run '^TestLargestDocuments$$' ./internal/mongostore
	$(GO) test -tags=mutate -vet=off -count=1 -timeout=60m -v -run '^TestMutationsAreCaught$$' ./test/mutation
	GOFLAGS="$(GOFLAGS) -tags=long" && export GOFLAGS && $(WITH_MONGODB) $(GO) test -C test/browser -vet=off -count=1 -timeout=10m -run '^TestEveryPage$$' ./...
	$(MAKE) bench-lab

# A module of its own, because the tools that read charts, compositions and images have hundreds of dependencies.
.PHONY: test-deploy
test-deploy: ## Check what is in deploy/ by the tools that read it; builds helm the first time.
	cd deploy/test && $(GO) test -vet=off -count=1 -timeout=25m ./... # vet is one of the linters

# A module of its own, because only this test drives a browser.
.PHONY: test-browser
test-browser: ## Look at the pages of the demo and the console in Chromium, which .ci/run installs.
	$(WITH_MONGODB) $(GO) test -C test/browser -vet=off -count=1 -timeout=10m ./... # vet is one of the linters

# A module of its own, because what only the lab needs, such as plots and job queues, is no dependency of Fanmail.
.PHONY: bench-lab
bench-lab: ## Run each command of the lab in bench/ once at its smallest size; its own tests, too.
	cd bench && $(GO) test -vet=off -count=1 -timeout=25m ./... # vet is one of the linters

.PHONY: fuzz
fuzz: ## Run each fuzz test for FUZZTIME (10s).
	@listed=$$($(GO) test -list '^Fuzz' ./...) || { echo "$$listed"; exit 1; }; \
	echo "$$listed" | awk '/^Fuzz/ { names[n++] = $$1 } /^ok/ { for (i = 0; i < n; i++) print $$2, names[i]; n = 0 }' | \
	while read -r package name; do \
		echo "$$package $$name"; \
		$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$package" || exit 1; \
	done

.PHONY: bench
bench: ## Run the benchmarks that match BENCH (all).
	$(WITH_MONGODB) $(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./...

.PHONY: cover
cover: ## Measure what the tests cover; coverage.out has the details.
	$(WITH_MONGODB) $(GO) test -coverpkg=./... -coverprofile=coverage.out ./...
	$(GO) tool cover -func=coverage.out | tail -n 1

.PHONY: lint
lint: ## Check style, import rules and workflows.
	$(LINT) config verify
	$(LINT) run ./...
	cd deploy/test && $(LINT_BELOW) run ./...
	cd test/browser && $(LINT_BELOW) run ./...
	cd bench && $(GO) build -o /dev/null ./... && $(LINT_BENCH) run ./...
	$(ACTIONLINT) .github/workflows/*.yaml

# Tests hold what is generated to what it is generated from.
.PHONY: generate
generate: ## Write what is generated: help texts, and the references of commands and configuration.
	$(GO) test ./config -run TestDocument -update
	$(GO) test ./internal/cli -run 'TestHelp|TestRoleHelp|TestReference' -update

VERSION ?= $(shell git describe --tags --always --dirty)
PLATFORMS ?= linux/amd64 linux/arm64

.PHONY: release
release: ## Build archives for PLATFORMS (linux/amd64 linux/arm64), with SBOMs and checksums, into bin/release.
	tools/release '$(VERSION)' bin/release $(PLATFORMS)

.PHONY: fmt
fmt: ## Format the code.
	$(LINT) fmt ./...
	cd deploy/test && $(LINT_BELOW) fmt ./...
	cd test/browser && $(LINT_BELOW) fmt ./...
	cd bench && $(LINT_BENCH) fmt ./...

.PHONY: clean
clean: ## Remove what the other targets leave behind.
	rm -rf bin coverage.out
