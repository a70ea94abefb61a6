package config

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/fanmail/fanmail/internal/duration"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Recorded has the settings that all processes on one store must agree on. The store records them, and a Config only proposes them.
type Recorded struct {
	// DormantAfter, ClockTolerance, PublishSlack and KeyTTL are those of Config and Idempotency.
	DormantAfter   time.Duration `key:"dormant_after"`
	ClockTolerance time.Duration `key:"clock_tolerance"`
	PublishSlack   time.Duration `key:"publish_slack"`
	KeyTTL         time.Duration `key:"idempotency.ttl"`
	// MaxAge, Newest and Canonical are those of Retention.
	MaxAge    time.Duration `key:"retention.max_age"`
	Newest    int           `key:"retention.newest"`
	Canonical time.Duration `key:"retention.canonical"`
}

// Recorded returns the settings that c proposes.
func (c Config) Recorded() Recorded {
	return Recorded{
		DormantAfter: c.DormantAfter, ClockTolerance: c.ClockTolerance, PublishSlack: c.PublishSlack, KeyTTL: c.Idempotency.TTL,
		MaxAge: c.Retention.MaxAge, Newest: c.Retention.Newest,
		// Whoever only makes keys last longer means that their messages do, too.
		Canonical: max(c.Retention.Canonical, c.Idempotency.TTL),
	}
}

// Texts returns the settings as they are written, by key.
func (r Recorded) Texts() map[string]string {
	texts := make(map[string]string)
	for _, f := range appendFields(nil, "", reflect.ValueOf(&r).Elem()) {
		texts[f.key] = f.text()
	}
	return texts
}

// With returns the settings with the given ones changed. An error lists everything that is wrong, as that of Config.Validate does.
func (r Recorded) With(texts map[string]string) (Recorded, error) {
	all := appendFields(nil, "", reflect.ValueOf(&r).Elem())
	var known []string
	for _, f := range all {
		known = append(known, f.key)
	}
	var errs []error
	for key := range texts {
		if !slices.Contains(known, key) {
			errs = append(errs, invalid("", key, "is no recorded setting: those are %s", strings.Join(known, ", ")))
		}
	}
	for _, f := range all {
		if text, found := texts[f.key]; found {
			if err := f.parse(text); err != nil {
				errs = append(errs, invalid("", f.key, "%v", err))
			}
		}
	}
	if len(errs) > 0 {
		return Recorded{}, errors.Join(errs...)
	}
	v := validator{}
	r.times(&v)
	r.retention(&v)
	return r, errors.Join(v.errs...)
}

// retention checks what expires. A message must not expire before it can have arrived, and not be removed while its key is remembered.
func (r Recorded) retention(v *validator) {
	least := r.PublishSlack + r.ClockTolerance
	v.require("retention.max_age", r.MaxAge == 0 || r.MaxAge >= least,
		"is %s: it must be 0, or at least publish_slack and clock_tolerance together, which are %s", duration.Text(r.MaxAge), duration.Text(least))
	v.require("retention.newest", r.Newest >= 0 && r.Newest <= userstate.MaxNewest,
		"is %d: it must be 0, or from 1 to %d", r.Newest, userstate.MaxNewest)
	v.require("retention.canonical", r.Canonical >= r.KeyTTL,
		"is %s: it must be at least idempotency.ttl, which is %s", duration.Text(r.Canonical), duration.Text(r.KeyTTL))
}

func (r Recorded) times(v *validator) {
	within(v, "clock_tolerance", r.ClockTolerance, time.Millisecond, day)
	v.require("dormant_after", r.DormantAfter >= 4*r.ClockTolerance,
		"is %s: it must be at least four times clock_tolerance, which is %s", duration.Text(r.DormantAfter), duration.Text(r.ClockTolerance))
	v.require("publish_slack", r.PublishSlack > r.ClockTolerance/2,
		"is %s: it must be more than half of clock_tolerance, which is %s, for that is how far clocks may be apart",
		duration.Text(r.PublishSlack), duration.Text(r.ClockTolerance))
	within(v, "publish_slack", r.PublishSlack, time.Millisecond, day)
	v.require("idempotency.ttl", r.KeyTTL >= r.PublishSlack,
		"is %s: it must be at least publish_slack, which is %s", duration.Text(r.KeyTTL), duration.Text(r.PublishSlack))
}
