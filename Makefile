GO ?= go
MODULE := github.com/fanmail/fanmail
LINT := $(GO) tool -modfile=tools/go.mod golangci-lint
LINT_DEPLOY := $(GO) tool -modfile=../../tools/go.mod golangci-lint
# Runs a command with a MongoDB server for the tests, which it finds or installs. It is built and then run, as "go run"
# would not pass signals on to it.
WITH_MONGODB = $(GO) build -o bin/withmongodb ./test/services/withmongodb && exec bin/withmongodb
# Lets a command find promtool, which is unpacked where there is none.
WITH_PROMTOOL = { command -v promtool >/dev/null || PATH="$$PATH:$$(test/services/prometheus/install)"; } && export PATH &&
# Tests whose actors take turns, so that the race detector has nothing to see in them, and makes them several times as long.
TAKE_TURNS := ./internal/storetest/buckettest ./test/statemachine
# The longest comes first, so that nothing has to wait for it alone.
LONGEST := ./test/e2e
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

# Without -count=1 a result could come from the cache although a binary that the test drives has changed.
.PHONY: test
test: ## Run every test, with the race detector but where actors take turns.
	@echo 'Backends under test: embedded store (Pebble), MongoDB (which server is told below), embedded NATS server (JetStream).'
	$(WITH_PROMTOOL) $(WITH_MONGODB) $(GO) test -race -count=1 -timeout=35m $(LONGEST) $(filter-out $(patsubst ./%,$(MODULE)/%,$(LONGEST) $(TAKE_TURNS)),$(shell $(GO) list ./...))
	$(WITH_MONGODB) $(GO) test -count=1 -timeout=25m $(TAKE_TURNS)
	$(GO) test -count=1 -run '^TestConformance$$/^Inbox$$' ./internal/pebblestore # every schedule, where the detector allows a sample
	$(MAKE) test-deploy

# A module of its own, since the tools that read charts, compositions and images have hundreds of dependencies.
.PHONY: test-deploy
test-deploy: ## Check what is in deploy/ by the tools that read it; builds helm the first time.
	cd deploy/test && $(GO) test -vet=off -count=1 -timeout=25m ./... # vet is one of the linters

.PHONY: test-short
test-short: ## Run the tests that give an answer in under two minutes, without a MongoDB server.
	$(WITH_PROMTOOL) $(GO) test -short -timeout=5m ./...

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
lint: ## Check style and import rules.
	$(LINT) config verify
	$(LINT) run ./...
	cd deploy/test && $(LINT_DEPLOY) run ./...

# Tests hold what is generated to what it is generated from.
.PHONY: generate
generate: ## Write what is generated: help texts, and the references of commands and configuration.
	$(GO) test ./config -run TestDocument -update
	$(GO) test ./internal/cli -run 'TestHelp|TestRoleHelp|TestReference' -update

.PHONY: fmt
fmt: ## Format the code.
	$(LINT) fmt ./...
	cd deploy/test && $(LINT_DEPLOY) fmt ./...

.PHONY: clean
clean: ## Remove what the other targets leave behind.
	rm -rf bin coverage.out
