package app

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"

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
		// A restarted process gets a new name, because it may be of another release.
		Name: host + "-" + strings.ToLower(rand.Text()[:8]), Role: a.roles(),
	}
	if a.config.Store == config.StoreMongoDB {
		process.Timeout = a.config.MongoDB.Timeout
	}
	return settings.New(settings.Options{
		Configured: proposed.Texts(), Process: process, Logger: a.opts.Logger,
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
