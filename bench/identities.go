package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fanmail/fanmail/internal/bench"
	"github.com/fanmail/fanmail/internal/identities"
	"github.com/fanmail/fanmail/pkg/identity"
)

// IdentitiesOptions configure env.Identities.
type IdentitiesOptions struct {
	// Users is the number of users, each with an email address and a phone number.
	Users int
	// Lookups is the number of lookups of one identity, and Together the number of identities in a larger lookup, of which there are a tenth
	// as many.
	Lookups, Together int
}

// claimedTogether is the number of identities that are claimed together, as in a batch of a client.
const claimedTogether = 1000

type identifying struct {
	*world
	o       IdentitiesOptions
	service *identities.Service
}

// Identities measures claims and lookups of identities.
func (e env) Identities(ctx context.Context, o IdentitiesOptions) (_ Report, err error) {
	w, err := e.open(ctx)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, w.Close(ctx)) }()
	service := identities.New(w.Parts.Identities, identities.Options{Now: e.Now})
	x := identifying{world: w, o: o, service: service}
	e.Tell("claiming identities")
	rate, err := x.claim(ctx)
	if err != nil {
		return Report{}, err
	}
	e.Tell("looking up identities")
	one, err := x.lookUp(ctx, o.Lookups, 1)
	if err != nil {
		return Report{}, err
	}
	many, err := x.lookUp(ctx, max(1, o.Lookups/10), min(o.Together, o.Users))
	if err != nil {
		return Report{}, err
	}
	figures := slices.Concat([]Figure{figure("claims", rate, "/s")}, bench.Latency("lookup of one", one), bench.Latency("lookup of many", many))
	return Report{Benchmark: "identities", Store: e.Config.Store, Rows: []Row{{Case: fmt.Sprintf("%d users", o.Users), Figures: figures}}}, nil
}

func email(n int) identity.Identity {
	return identity.Identity{Kind: identity.Email, Value: fmt.Sprintf("user-%07d@example.com", n)}
}

func phone(n int) identity.Identity {
	return identity.Identity{Kind: identity.Phone, Value: fmt.Sprintf("+4930%08d", n)}
}

// claim claims the identities of all users, and returns how many it claimed a second.
func (x identifying) claim(ctx context.Context) (rate float64, err error) {
	began := x.Env.Now()
	for _, of := range []func(int) identity.Identity{email, phone} {
		for first := 0; first < x.o.Users; first += claimedTogether {
			var claims []identities.Claim
			for n := first; n < min(first+claimedTogether, x.o.Users); n++ {
				claims = append(claims, identities.Claim{Identity: of(n), User: bench.User("user", n)})
			}
			results, err := x.service.Claim(ctx, claims)
			if err := errors.Join(append(results, err)...); err != nil {
				return 0, err
			}
		}
	}
	return float64(2*x.o.Users) / x.Env.Now().Sub(began).Seconds(), nil
}

// lookUp looks up so many email addresses together, that are spread over all, and requires that all are found.
func (x identifying) lookUp(ctx context.Context, lookups, together int) (took bench.Times, err error) {
	const stride = 7919 // a prime, so that the addresses are not neighbors
	for k := range lookups {
		ids := make([]identity.Identity, together)
		for i := range ids {
			ids[i] = email((k*together + i) * stride % x.o.Users)
		}
		began := x.Env.Now()
		owners, err := x.service.Lookup(ctx, ids)
		took = append(took, x.Env.Now().Sub(began))
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(owners, func(o identities.Owner) bool { return o.Err != nil }); i >= 0 {
			return nil, fmt.Errorf("look up %s: %w", ids[i].Value, owners[i].Err)
		}
	}
	return took, nil
}
