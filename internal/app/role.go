package app

import (
	"slices"
	"strings"
)

// Role is a part of Fanmail that can run in its own process.
type Role string

// The roles. A process without a configured role has all of them.
const (
	// Publisher accepts messages and edges.
	Publisher Role = "publisher"
	// FanoutWorker copies messages into inboxes.
	FanoutWorker Role = "fanout-worker"
	// Rehydrator serves inboxes, and rebuilds those of returning users.
	Rehydrator Role = "rehydrator"
)

// has reports whether this process has a role.
func (a *App) has(role Role) bool {
	return len(a.opts.Roles) == 0 || slices.Contains(a.opts.Roles, role)
}

// roles returns the roles of this process, joined by "+".
func (a *App) roles() string {
	var roles []string
	for _, role := range []Role{Publisher, FanoutWorker, Rehydrator} {
		if a.has(role) {
			roles = append(roles, string(role))
		}
	}
	return strings.Join(roles, "+")
}
