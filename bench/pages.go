package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fanmail/fanmail/internal/bench"
)

// PagesOptions configure env.Pages.
type PagesOptions struct {
	// Users is the number of inboxes, and Messages the number of messages in each.
	Users, Messages int
	// Pages is the number of inboxes that are read, at most Users.
	Pages int
}

// Pages measures the newest pages of random inboxes: first when neither the store nor the system has cached anything of its files, where the
// system can forget them, and then when they were just read.
func (e env) Pages(ctx context.Context, o PagesOptions) (_ Report, err error) {
	w, err := e.open(ctx)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, w.Close(ctx)) }()
	e.Tell(fmt.Sprintf("filling %d inboxes with %d messages each", o.Users, o.Messages))
	all := bench.Users("user", 0, o.Users)
	err = errors.Join(w.See(ctx, e.Now(), all), w.Preload(ctx, all, w.Entries(0, o.Messages)), bench.Settle(ctx), w.Restart(ctx))
	if err != nil {
		return Report{}, err
	}
	cases := []string{"warm"}
	if !e.OnMongoDB() {
		dropped, err := dropCached(w.Config.Data)
		if err != nil {
			return Report{}, err
		}
		if dropped {
			cases = []string{"cold", "warm"}
		}
	}
	report := Report{Benchmark: "pages", Store: e.Config.Store}
	read := rand.New(rand.NewPCG(1, 2)).Perm(o.Users)[:o.Pages] //nolint:gosec // each run reads the same
	for _, name := range cases {
		e.Tell(fmt.Sprintf("reading %d pages, %s", o.Pages, name))
		took := make(bench.Times, o.Pages)
		for i, user := range read {
			began := time.Now() //nolint:forbidigo // what is measured is time
			if err := w.Page(ctx, all[user], o.Messages, true); err != nil {
				return Report{}, err
			}
			took[i] = time.Since(began)
		}
		report.Rows = append(report.Rows, Row{Case: name, Figures: bench.Latency("page", took)})
	}
	return report, nil
}
