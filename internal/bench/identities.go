package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fanmail/fanmail/internal/identities"
	"github.com/fanmail/fanmail/internal/mongostore/mongoraw"
	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
)

// IdentitiesOptions configure Env.Identities.
type IdentitiesOptions struct {
	// Users is the number of users, each with an email address and a phone number.
	Users int
	// Lookups is the number of lookups of one identity, and Together the number of identities in a larger lookup, of which there are a tenth
	// as many.
	Lookups, Together int
}

// claimedTogether is the number of identities that are claimed together, as in a batch of a client.
const claimedTogether = 1000

// layout is a way to store identities.
type layout struct {
	name  string
	claim func(ctx context.Context, ids []identity.Identity, users []message.UserID) error
	// lookup returns how many of the identities have a user.
	lookup func(ctx context.Context, ids []identity.Identity) (int, error)
}

// Identities measures claims and lookups of identities: in the store's layout and, on MongoDB, beside it in one in which a user's
// document has all of the user's identities.
func (e Env) Identities(ctx context.Context, o IdentitiesOptions) (_ Report, err error) {
	w, err := e.open(ctx)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, w.close(ctx)) }()
	x := identifying{world: w, o: o}
	layouts := []layout{x.ours()}
	var shards [2]int
	if w.onMongoDB() {
		other, err := mongoraw.OpenIdentities(ctx, string(w.cfg.MongoDB.URI), w.cfg.MongoDB.Database, []identity.Kind{identity.Email, identity.Phone})
		if err != nil {
			return Report{}, err
		}
		defer func() { err = errors.Join(err, other.Close(ctx)) }()
		layouts = append(layouts, layout{name: "a document for each user", claim: other.Claim, lookup: other.Lookup})
		if other.Sharded() {
			if shards[0], shards[1], err = other.Shards(ctx, x.email(0)); err != nil {
				return Report{}, err
			}
		}
	}
	report := Report{Benchmark: "identities", Store: e.Config.Store}
	for i, l := range layouts {
		figures, err := x.measure(ctx, l)
		if err != nil {
			return Report{}, fmt.Errorf("%s: %w", l.name, err)
		}
		if shards[i] > 0 {
			figures = append(figures, Figure{"shards asked", float64(shards[i]), ""})
		}
		report.Rows = append(report.Rows, Row{Case: l.name, Figures: figures})
	}
	return report, nil
}

type identifying struct {
	*world
	o IdentitiesOptions
}

func (x identifying) ours() layout {
	service := identities.New(x.parts.Identities, identities.Options{Level: func() int { return settings.Topics }, Now: x.env.Now})
	return layout{
		name: "a record for each identity",
		claim: func(ctx context.Context, ids []identity.Identity, users []message.UserID) error {
			claims := make([]identities.Claim, len(ids))
			for i, id := range ids {
				claims[i] = identities.Claim{Identity: id, User: users[i]}
			}
			results, err := service.Claim(ctx, claims)
			return errors.Join(append(results, err)...)
		},
		lookup: func(ctx context.Context, ids []identity.Identity) (found int, err error) {
			owners, err := service.Lookup(ctx, ids)
			for _, o := range owners {
				if o.Err == nil {
					found++
				}
			}
			return found, err
		},
	}
}

func (x identifying) email(n int) identity.Identity {
	return identity.Identity{Kind: identity.Email, Value: fmt.Sprintf("user-%07d@example.com", n)}
}

func (x identifying) phone(n int) identity.Identity {
	return identity.Identity{Kind: identity.Phone, Value: fmt.Sprintf("+4930%08d", n)}
}

// measure fills a layout, and then looks identities up.
func (x identifying) measure(ctx context.Context, l layout) ([]Figure, error) {
	x.env.Tell("claiming: " + l.name)
	all := users("user", 0, x.o.Users)
	began := x.env.Now()
	for _, of := range []func(int) identity.Identity{x.email, x.phone} {
		n := 0
		for some := range slices.Chunk(all, claimedTogether) {
			ids := make([]identity.Identity, len(some))
			for i := range ids {
				ids[i] = of(n)
				n++
			}
			if err := l.claim(ctx, ids, some); err != nil {
				return nil, err
			}
		}
	}
	rate := float64(2*x.o.Users) / x.env.Now().Sub(began).Seconds()
	x.env.Tell("looking up: " + l.name)
	one, err := x.lookUp(ctx, l, x.o.Lookups, 1)
	if err != nil {
		return nil, err
	}
	many, err := x.lookUp(ctx, l, max(1, x.o.Lookups/10), min(x.o.Together, x.o.Users))
	if err != nil {
		return nil, err
	}
	figures := append([]Figure{{"claims", rate, "/s"}}, latency("lookup of one", one)...)
	return append(figures, latency("lookup of many", many)...), nil
}

// lookUp looks up so many email addresses together, that are spread over all, and requires that all are found.
func (x identifying) lookUp(ctx context.Context, l layout, lookups, together int) (took times, err error) {
	const stride = 7919 // a prime, so that the addresses are not neighbors
	for k := range lookups {
		ids := make([]identity.Identity, together)
		for i := range ids {
			ids[i] = x.email((k*together + i) * stride % x.o.Users)
		}
		began := time.Now() //nolint:forbidigo // what is measured is time
		found, err := l.lookup(ctx, ids)
		took = append(took, time.Since(began))
		if err == nil && found != together && x.o.Users%stride != 0 {
			err = fmt.Errorf("%d of %d identities were found", found, together)
		}
		if err != nil {
			return nil, err
		}
	}
	return took, nil
}
