package mutation_test

const (
	drainGo      = "internal/app/drain.go"
	clocksGo     = "internal/clocks/clocks.go"
	clientGo     = "pkg/client/client.go"
	jsonfieldsGo = "internal/jsonfields/jsonfields.go"
)

// serving are the shortcuts around requests: who gets them, by which clock, and what they say.
func serving() []mutation {
	return []mutation{
		{
			name: "every role needs the bus", trap: "while it is away, load balancers take reading out of service",
			edits: []edit{{drainGo, "return !a.has(Publisher) && !a.has(Rehydrator)", "return true"}},
			pkg:   "./internal/app", run: "^TestReadyWithoutTheBus$",
		},
		{
			name: "no role needs the bus", trap: "a worker that cannot work looks ready",
			edits: []edit{{drainGo, "return !a.has(Publisher) && !a.has(Rehydrator)", "return false"}},
			pkg:   "./internal/app", run: "^TestReadyWithoutTheBus$",
		},
		{
			name: "starting with any clock", trap: "a publisher refuses all messages, or stamps them in the future",
			edits: []edit{{clocksGo, "err == nil && r.apart() > tolerance", "err == nil && r.apart() > 100*tolerance"}},
			pkg:   "./internal/clocks", run: "^TestCheck$",
		},
		{
			name: "a clock that is behind does not count", trap: "the publisher finds every message late",
			edits: []edit{{clocksGo, "r.ahead().Abs()-r.inexact", "r.ahead()-r.inexact"}},
			pkg:   "./internal/clocks", run: "^TestCheck$",
		},
		{
			name: "a slow answer counts as a difference", trap: "a busy database keeps processes from starting",
			edits: []edit{{clocksGo, "r.ahead().Abs()-r.inexact", "r.ahead().Abs()"}},
			pkg:   "./internal/clocks", run: "^TestCheck$",
		},
		{
			name: "fields in any case", trap: "a gateway checks one author, and Fanmail publishes as another",
			edits: []edit{{jsonfieldsGo, "if names[i] == name {", "if strings.EqualFold(names[i], name) {"}},
			pkg:   "./internal/httpapi", run: "^TestBadInput$",
		},
		{
			name: "the last of two fields", trap: "the same",
			edits: []edit{{jsonfieldsGo, "case seen[at]:", "case seen[at] && at < 0:"}},
			pkg:   "./internal/httpapi", run: "^TestBadInput$",
		},
		{
			name: "the last identity in an object", trap: "the same, for a recipient",
			edits: []edit{{"pkg/client/draft.go", " || fields(element) != 1", ""}},
			pkg:   "./internal/httpapi", run: "^TestBadInput$",
		},
		{
			name: "a client that hangs up is a failure", trap: "impatient clients use up what the objective allows, and fill the log",
			edits: []edit{{"internal/httpapi/problem.go", "canceled := p.Type", "canceled := p == nil && p.Type"}},
			pkg:   "./internal/httpapi", run: "^TestHangingUp$",
		},
		{
			name: "a request that the server cuts off is no failure", trap: "a stop that takes too long looks like clients that hang up",
			edits: []edit{{"internal/httpapi/response.go", "errors.Is(context.Cause(ctx), context.Canceled)", "errors.Is(ctx.Err(), context.Canceled)"}},
			pkg:   "./internal/httpapi", run: "^TestCutOff$",
		},
		{
			name: "events that end with the request", trap: "a message that was stored waits for the sweep because its client is gone",
			edits: []edit{{"internal/publish/publish.go", "	ctx = context.WithoutCancel(ctx)\n	err := s.bus", "	err := s.bus"}},
			pkg:   "./internal/httpapi", run: "^TestHangingUpKeepsWhatWasAccepted$",
		},
		{
			name: "a follow that is no view", trap: "a user who follows gets nothing until the first look",
			edits: []edit{{"internal/following/following.go", "if s.opts.Seen == nil {", "if s.opts.Seen == nil || s != nil {"}},
			pkg:   "./internal/app", run: "^TestFollowCountsAsView$",
		},
		{
			name: "holding a rehydration that no worker of this process takes", trap: "the inbox is rebuilt only when the lease has ended",
			edits: []edit{{"internal/rehydrate/job.go", "		until = now\n", "		until = until.Add(0)\n"}},
			pkg:   "./internal/rehydrate", run: "^TestElsewhere$",
		},
		{
			name: "a client that asks one role for everything", trap: "a program whose roles run apart cannot read",
			edits: []edit{{clientGo, "return c.rehydrator\n", "return c.publisher\n"}},
			pkg:   "./pkg/client", run: "^TestServerOf$",
		},
		{
			name: "paths of a user for one role", trap: "a program whose roles run apart cannot follow",
			edits: []edit{{clientGo, "if of == \"users\" && len(parts) > 2 {", "if of == \"users\" && len(parts) > 9 {"}},
			pkg:   "./pkg/client", run: "^TestServerOf$",
		},
		{
			name: "an open address without authentication", trap: "every client reads every inbox of a container",
			edits: []edit{{"internal/app/security.go", "cfg.Addr = net.JoinHostPort(\"127.0.0.1\", port)", "cfg.Addr, cfg.Insecure = net.JoinHostPort(\"\", port), true"}},
			pkg:   "./internal/app", run: "^TestLocalWithoutAuth$",
		},
	}
}
