package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/bench/trace"
	"github.com/fanmail/fanmail/internal/bench"
	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/pkg/message"
)

// DormancyOptions configure env.Dormancy.
type DormancyOptions struct {
	Trace *trace.Trace
	// Followers is the size of the audience with which copies are priced, and Returns the number of users with whom rebuilds are.
	Followers, Returns int
}

// Two numbers of messages that returning users missed. Their difference prices a message in a rebuild.
const missedFew, missedMany = 10, 500

// returnTogether is the number of users who return at the same time.
const returnTogether = 16

// Dormancy measures what a copy, a rebuild and a page cost, and computes with these prices what policies of dormancy cost in the second half of a trace:
// thresholds, habits that were learned in the first half, and the optimum with hindsight. Costs are times of a machine that does nothing else.
func (e env) Dormancy(ctx context.Context, o DormancyOptions) (Report, error) {
	prices, err := e.prices(ctx, o)
	if err != nil {
		return Report{}, err
	}
	e.Tell("replaying the trace")
	middle := o.Trace.Middle()
	best := o.Trace.Best(prices, middle)
	report := Report{Benchmark: "dormancy", Store: e.Config.Store, XName: "days", Plotted: []string{"cost"}}
	report.Rows = append(report.Rows, Row{Case: "prices", Figures: []Figure{
		figure("copy", 1e6*prices.Copy, "µs"),
		figure("skip", 1e6*prices.Skipping, "µs"),
		figure("rebuild", 1e6*prices.Rebuild, "µs"),
		figure("message rebuilt", 1e6*prices.RebuildMessage, "µs"),
		figure("page", milliseconds(prices.Page), "ms"),
		figure("first page", milliseconds(prices.FirstPage), "ms"),
	}})
	add := func(name string, x float64, r trace.Result) {
		cost := prices.Cost(r)
		report.Rows = append(report.Rows, Row{Case: name, X: x, Figures: []Figure{
			figure("cost", cost, "s"),
			figure("of the optimum", cost/prices.Cost(best), ""),
			figure("copies", float64(r.Copies), ""),
			figure("skipped", float64(r.Skipped), ""),
			figure("rebuilds", float64(r.Rebuilds), ""),
			figure("messages rebuilt", float64(r.Rebuilt), ""),
			figure("waiting for first pages", prices.Waited(r).Seconds(), "s"),
			figure("bodies written", prices.Written(r)/(1<<20), "MiB"),
		}})
	}
	thresholds := thresholds()
	for _, t := range thresholds {
		add(fmt.Sprintf("threshold %d d", t.Days()), float64(t.Days()), o.Trace.Replay(t, prices, middle))
	}
	cheapest := o.Trace.Cheapest(thresholds, middle, prices)
	add(fmt.Sprintf("threshold %d d, cheapest in the first half", cheapest.Days()), 0, o.Trace.Replay(cheapest, prices, middle))
	add("habits, learned in the first half", 0, o.Trace.Replay(trace.Learn(o.Trace, middle, prices), prices, middle))
	add("optimum, with hindsight", 0, best)
	return report, nil
}

func thresholds() (all []trace.Threshold) {
	for _, days := range []int{1, 2, 3, 5, 7, 10, 14, 21, 30, 45, 60, 90, 120, 180, 270, 365} {
		all = append(all, trace.Days(days))
	}
	return all
}

func (e env) prices(ctx context.Context, o DormancyOptions) (p trace.Prices, err error) {
	p.Bytes, p.Limit = float64(e.Body), e.Config.Rehydrate.Limit
	if p.Copy, err = e.priceOf(ctx, o.Followers, 0); err != nil {
		return p, err
	}
	if p.Skipping, err = e.priceOf(ctx, o.Followers, 1); err != nil {
		return p, err
	}
	few, err := e.returns(ctx, o.Returns, missedFew)
	if err != nil {
		return p, err
	}
	many, err := e.returns(ctx, o.Returns, missedMany)
	if err != nil {
		return p, err
	}
	p.Page, p.FirstPage = few.page, few.first
	p.RebuildMessage = max(0, (many.rebuild-few.rebuild)/(missedMany-missedFew))
	p.Rebuild = max(0, few.rebuild-missedFew*p.RebuildMessage)
	return p, nil
}

// priceOf measures a fan-out to followers of whom a share is dormant, and returns the seconds for each of them.
func (e env) priceOf(ctx context.Context, followers int, dormant float64) (float64, error) {
	report, err := e.Fanout(ctx, bench.FanoutOptions{Followers: []int{followers}, Dormant: dormant, Messages: 1})
	if err != nil {
		return 0, err
	}
	took, err := valueOf(report.Rows[0].Figures, "took")
	return took / float64(followers), err
}

func valueOf(figures []Figure, name string) (float64, error) {
	i := slices.IndexFunc(figures, func(f Figure) bool { return f.Name == name })
	if i < 0 {
		return 0, fmt.Errorf("no figure is named %s", name)
	}
	return figures[i].Value, nil
}

// returned is what users cost who return: the median times until they see a page, before and after their inbox is rebuilt, and the seconds of the machine
// for each of them.
type returned struct {
	first, page time.Duration
	rebuild     float64
}

// returns lets users return who follow one author and have missed a number of messages. Most return several at a time, until their inboxes are rebuilt. A
// few return alone before, to measure what they wait.
func (e env) returns(ctx context.Context, n, missed int) (r returned, err error) {
	const year = 365 * 24 * time.Hour
	begin := e.Now().Add(-year)
	e.Config.Fanout.ResumeEvery = 24 * time.Hour // see rehydrate
	w, err := e.OpenStamped(ctx, func() time.Time { return begin })
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, w.Close(ctx)) }()
	e.Tell(fmt.Sprintf("letting %d users come back who missed %d messages", n, missed))
	last, err := w.Archive(ctx, begin, year, missed, 1, nil)
	if err != nil {
		return r, err
	}
	alone := max(1, n/10)
	author := []message.Source{bench.User("author", 0).Source()}
	slow := bench.Returning{Users: bench.Users("alone", 0, alone), Sources: author}
	together := bench.Returning{Users: bench.Users("user", 0, n), Sources: author}
	if err := errors.Join(w.Leave(ctx, begin, slow), w.Leave(ctx, begin, together)); err != nil {
		return r, err
	}
	if err := w.Restart(ctx); err != nil {
		return r, err
	}
	first, err := w.ComeBack(ctx, slow, missed, last)
	if err != nil {
		return r, err
	}
	p50, err := valueOf(first, "first page p50")
	if err != nil {
		return r, err
	}
	r.first = time.Duration(p50 * float64(time.Millisecond))
	var pages bench.Times
	for _, user := range slow.Users {
		began := time.Now() //nolint:forbidigo // what is measured is time
		if err := w.Page(ctx, user, missed, true); err != nil {
			return r, err
		}
		pages = append(pages, time.Since(began))
	}
	r.page = time.Duration(pages.Percentile(50) * float64(time.Millisecond))
	began := time.Now() //nolint:forbidigo // what is measured is time
	if err := logIn(ctx, w, together.Users); err != nil {
		return r, err
	}
	r.rebuild = time.Since(began).Seconds() / float64(n)
	return r, nil
}

// logIn lets users return, several at a time, and waits until their inboxes are rebuilt.
func logIn(ctx context.Context, w *bench.World, all []message.UserID) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(returnTogether)
	for _, user := range all {
		g.Go(func() (err error) {
			defer panics.Catch(&err)
			return w.Login(gctx, user)
		})
	}
	return g.Wait()
}
