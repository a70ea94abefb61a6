package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/bench/trace"
	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// DormancyOptions configure Env.Dormancy.
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
func (e Env) Dormancy(ctx context.Context, o DormancyOptions) (Report, error) {
	prices, err := e.prices(ctx, o)
	if err != nil {
		return Report{}, err
	}
	e.Tell("replaying the trace")
	middle := o.Trace.Middle()
	best := o.Trace.Best(prices, middle)
	report := Report{Benchmark: "dormancy", Store: e.Config.Store, XName: "days", Plotted: []string{"cost"}}
	report.Rows = append(report.Rows, Row{Case: "prices", Figures: []Figure{
		{"copy", 1e6 * prices.Copy, "µs"},
		{"skip", 1e6 * prices.Skipping, "µs"},
		{"rebuild", 1e6 * prices.Rebuild, "µs"},
		{"message rebuilt", 1e6 * prices.RebuildMessage, "µs"},
		{"page", milliseconds(prices.Page), "ms"},
		{"first page", milliseconds(prices.FirstPage), "ms"},
	}})
	add := func(name string, x float64, r trace.Result) {
		cost := prices.Cost(r)
		report.Rows = append(report.Rows, Row{Case: name, X: x, Figures: []Figure{
			{"cost", cost, "s"},
			{"of the optimum", cost / prices.Cost(best), ""},
			{"copies", float64(r.Copies), ""},
			{"skipped", float64(r.Skipped), ""},
			{"rebuilds", float64(r.Rebuilds), ""},
			{"messages rebuilt", float64(r.Rebuilt), ""},
			{"waiting for first pages", prices.Waited(r).Seconds(), "s"},
			{"bodies written", prices.Written(r) / (1 << 20), "MiB"},
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

func (e Env) prices(ctx context.Context, o DormancyOptions) (p trace.Prices, err error) {
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
func (e Env) priceOf(ctx context.Context, followers int, dormant float64) (float64, error) {
	figures, err := e.fanout(ctx, followers, FanoutOptions{Dormant: dormant, Messages: 1})
	if err != nil {
		return 0, err
	}
	took, err := valueOf(figures, "took")
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
func (e Env) returns(ctx context.Context, n, missed int) (r returned, err error) {
	const year = 365 * 24 * time.Hour
	begin := e.Now().Add(-year)
	e.Config.Fanout.SweepEvery = 24 * time.Hour // see rehydrate
	w, err := e.openStamped(ctx, func() time.Time { return begin })
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, w.close(ctx)) }()
	e.Tell(fmt.Sprintf("letting %d users come back who missed %d messages", n, missed))
	last, err := w.archive(ctx, begin, year, missed, 1, nil)
	if err != nil {
		return r, err
	}
	alone := max(1, n/10)
	author := []message.Source{user("author", 0).Source()}
	slow := &returning{users: users("alone", 0, alone), sources: author}
	together := &returning{users: users("user", 0, n), sources: author}
	if err := errors.Join(w.leave(ctx, begin, slow), w.leave(ctx, begin, together)); err != nil {
		return r, err
	}
	if err := errors.Join(w.stop(ctx), w.start(ctx, nil)); err != nil {
		return r, err
	}
	first, err := w.comeBack(ctx, slow, missed, last)
	if err != nil {
		return r, err
	}
	p50, err := valueOf(first, "first page p50")
	if err != nil {
		return r, err
	}
	r.first = time.Duration(p50 * float64(time.Millisecond))
	var pages times
	for _, user := range slow.users {
		began := time.Now() //nolint:forbidigo // what is measured is time
		if err := w.page(ctx, user, missed, true); err != nil {
			return r, err
		}
		pages = append(pages, time.Since(began))
	}
	r.page = time.Duration(pages.percentile(50) * float64(time.Millisecond))
	began := time.Now() //nolint:forbidigo // what is measured is time
	if err := w.logIn(ctx, together.users); err != nil {
		return r, err
	}
	r.rebuild = time.Since(began).Seconds() / float64(n)
	return r, nil
}

// logIn lets users return, several at a time, and waits until their inboxes are rebuilt.
func (w *world) logIn(ctx context.Context, all []message.UserID) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(returnTogether)
	for _, user := range all {
		g.Go(func() (err error) {
			defer panics.Catch(&err)
			for state := client.Rehydrating; state != client.Active; {
				login, err := w.client.Login(gctx, user, client.MaxLoginWait)
				if err != nil {
					return err
				}
				state = login.State
			}
			return nil
		})
	}
	return g.Wait()
}
