package app

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// configured returns the settings of the configuration. They are in force until the store is read.
func (a *App) configured() (*settings.Current, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("the name of this host: %w", err)
	}
	proposed := a.config.Recorded()
	process := settings.Process{
		Name: settings.NewName(host), Role: a.roles(), Host: host, Version: version(), Address: a.server.addr(),
		Started: a.opts.Now().UTC().Truncate(time.Millisecond),
	}
	if a.config.Store == config.StoreMongoDB {
		process.Timeout = a.config.MongoDB.Timeout
	}
	return settings.New(settings.Options{
		Configured: proposed.Texts(), Process: process, Tally: &a.tally, Logger: a.opts.Logger,
		Parse: func(changed map[string]string) (settings.Values, error) { return parseSettings(proposed, changed) },
	})
}

func parseSettings(proposed config.Recorded, changed map[string]string) (settings.Values, error) {
	r, err := proposed.With(changed)
	if invalid, ok := errors.AsType[*config.InvalidError](err); ok {
		return settings.Values{}, &message.InvalidError{Field: invalid.Key, Reason: invalid.Reason}
	}
	return settings.Values{
		Rules:  userstate.Rules{DormantAfter: r.DormantAfter, ClockTolerance: r.ClockTolerance, PublishSlack: r.PublishSlack},
		KeyTTL: r.KeyTTL, Texts: r.Texts(),
		Retention: userstate.Retention{MaxAge: r.MaxAge, Newest: int64(r.Newest)}, Canonical: r.Canonical,
	}, err
}
