package overview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/pkg/client"
)

// roles are the roles of which a process should run, with what happens without one.
var roles = []struct{ role, kind, without string }{
	{"publisher", client.WarnNoPublisher, "nobody can publish or follow"},
	{"fanout-worker", client.WarnNoFanoutWorker, "messages wait, and nobody gets them"},
	{"rehydrator", client.WarnNoRehydrator, "nobody can read an inbox"},
}

// warnings returns what needs an operator, as far as it follows from an overview.
func (s *Service) warnings(o client.Overview) (warnings []client.Warning) {
	warn := func(kind, format string, args ...any) {
		warnings = append(warnings, client.Warning{Kind: kind, Text: fmt.Sprintf(format, args...)})
	}
	var running []client.ProcessLoad
	var versions []string
	for _, p := range o.Processes {
		if p.Alive && p.State != settings.Stopping {
			running = append(running, p)
			versions = append(versions, p.Version)
		}
	}
	for _, r := range roles {
		runs := slices.ContainsFunc(running, func(p client.ProcessLoad) bool { return slices.Contains(strings.Split(p.Role, "+"), r.role) })
		if o.Processes != nil && !runs {
			warn(r.kind, "no process with the role %s runs, so %s: start one", r.role, r.without)
		}
	}
	slices.Sort(versions)
	if versions = slices.Compact(versions); len(versions) > 1 {
		warn(client.WarnVersions, "processes of different releases run (%s): finish the upgrade", strings.Join(versions, ", "))
	}
	if o.DeadLetters != nil && o.DeadLetters.Total > 0 {
		warn(client.WarnDeadLetters, "there are dead letters (%d): look at their errors with 'fanmail dlq list', correct the cause, and redrive or drop them",
			o.DeadLetters.Total)
	}
	for _, c := range o.Clocks {
		if c.Off {
			warn(client.WarnClock, "the clock of a host differs from that of the %s by %.1f s: set the wrong clock right, and run an NTP client on both hosts",
				c.Server, c.AheadSeconds)
		}
	}
	if s.sources.Room != nil {
		if err := s.sources.Room(); err != nil {
			warn(client.WarnDisk, "messages are refused, because %v: free some space, or give the server a larger disk", err)
		}
	}
	return warnings
}
