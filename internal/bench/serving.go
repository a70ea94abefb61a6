package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/pebblestore/pebbleraw"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// PublishOptions configure Env.Publish.
type PublishOptions struct {
	// Connections are numbers of concurrent connections. Each number is measured in a world of its own.
	Connections []int
	// Messages is the number of messages in each measurement.
	Messages int
}

// Publish measures how many direct messages a second are accepted. Their delivery runs at the same time.
func (e Env) Publish(ctx context.Context, o PublishOptions) (Report, error) {
	report := Report{Benchmark: "publish", Store: e.Config.Store, XName: "connections", Plotted: []string{"accepted", "raw"}}
	for _, connections := range o.Connections {
		figures, err := e.publish(ctx, connections, o.Messages)
		if err != nil {
			return Report{}, fmt.Errorf("publish over %d connections: %w", connections, err)
		}
		report.Rows = append(report.Rows, Row{Case: fmt.Sprintf("%d connections", connections), X: float64(connections), Figures: figures})
	}
	return report, nil
}

func (e Env) publish(ctx context.Context, connections, messages int) (figures []Figure, err error) {
	w, err := e.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close(ctx)) }()
	if err := w.See(ctx, e.Now(), Users("user", 0, connections)); err != nil {
		return nil, err
	}
	var raw float64
	if !w.Env.OnMongoDB() {
		e.Tell("measuring the raw limit")
		raw, err = w.rawEmbedded(func(opts pebbleraw.Options) (float64, error) { return pebbleraw.Syncs(opts, messages, connections) })
		if err != nil {
			return nil, err
		}
	}
	e.Tell(fmt.Sprintf("publishing over %d connections", connections))
	var left atomic.Int64
	left.Store(int64(messages))
	var mu sync.Mutex
	var took Times
	group, ctx := errgroup.WithContext(ctx)
	began := time.Now() //nolint:forbidigo // what is measured is time
	for c := range connections {
		group.Go(func() error {
			draft := message.Draft{From: User("author", c), To: []message.UserID{User("user", c)}, Body: e.body()}
			var mine Times
			for left.Add(-1) >= 0 {
				sent := time.Now() //nolint:forbidigo // what is measured is time
				if _, err := w.Client.Publish(ctx, draft, ""); err != nil {
					return err
				}
				mine = append(mine, time.Since(sent))
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	rate := float64(messages) / time.Since(began).Seconds()
	figures = []Figure{{"accepted", rate, "/s"}}
	if raw > 0 {
		figures = append(figures, Figure{"raw", raw, "/s"}, Figure{"of raw", rate / raw, ""})
	}
	return append(figures, Latency("took", took)...), nil
}

// ReadOptions configure Env.Read.
type ReadOptions struct {
	// Entries are the numbers of messages in the measured inboxes.
	Entries []int
	// Pages is how often the newest page of each inbox is read.
	Pages int
}

// Read measures how long it takes to read the newest page of inboxes of several sizes, and to log in to them.
func (e Env) Read(ctx context.Context, o ReadOptions) (_ Report, err error) {
	w, err := e.Open(ctx)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, w.Close(ctx)) }()
	report := Report{Benchmark: "read", Store: e.Config.Store, XName: "messages in the inbox", Plotted: []string{"page p50", "page p99"}}
	for _, n := range o.Entries {
		e.Tell(fmt.Sprintf("filling an inbox with %d messages", n))
		figures, err := w.readInbox(ctx, n, o.Pages)
		if err != nil {
			return Report{}, err
		}
		report.Rows = append(report.Rows, Row{Case: fmt.Sprintf("%d messages", n), X: float64(n), Figures: figures})
	}
	least := report.Rows[0].Figures[0].Value
	for i := range report.Rows {
		row := &report.Rows[i]
		row.Figures = append(row.Figures, Figure{"times the first, p50", row.Figures[0].Value / least, ""})
	}
	return report, nil
}

// readInbox makes an inbox with n messages. It measures the newest page without a view and with one, and a page between two times. It also
// measures a login of an active user, and the first login of a day, which raises the user's horizon. Each is measured times over.
func (w *World) readInbox(ctx context.Context, n, pages int) ([]Figure, error) {
	owner, daily := User("reader", n), Users(fmt.Sprintf("daily-%d", n), 0, pages)
	now := w.Env.Now()
	if err := errors.Join(w.See(ctx, now, []message.UserID{owner}), w.See(ctx, now.Add(-w.Config.DormantAfter/2), daily)); err != nil {
		return nil, err
	}
	for first := 0; first < n; first += Together {
		if err := w.Preload(ctx, []message.UserID{owner}, w.Entries(first, min(n-first, Together))); err != nil {
			return nil, err
		}
	}
	var figures []Figure
	for _, measured := range []struct {
		name string
		do   func(i int) error
	}{
		{"page", func(int) error { return w.Page(ctx, owner, n, true) }},
		{"view", func(int) error { return w.Page(ctx, owner, n, false) }},
		{"between", func(i int) error { return w.pageBetween(ctx, owner, n, i) }},
		{"login", func(int) error { return w.login(ctx, owner) }},
		{"first login", func(i int) error { return w.login(ctx, daily[i]) }},
	} {
		took := make(Times, pages)
		for i := range took {
			began := time.Now() //nolint:forbidigo // what is measured is time
			if err := measured.do(i); err != nil {
				return nil, err
			}
			took[i] = time.Since(began)
		}
		figures = append(figures, Latency(measured.name, took)...)
	}
	return figures, nil
}

// Page reads the newest page of an inbox with n messages, as a view unless peek is set.
func (w *World) Page(ctx context.Context, owner message.UserID, n int, peek bool) error {
	const page = 50
	got, err := w.Client.Inbox(ctx, owner, client.InboxOptions{Limit: page, Peek: peek})
	if err == nil && (len(got.Messages) != min(page, n) || got.Total != int64(n)) {
		err = fmt.Errorf("a page has %d messages of %d, want %d of %d", len(got.Messages), got.Total, min(page, n), n)
	}
	return err
}

// pageBetween reads a page of messages that were sent one after the other, each time elsewhere in an inbox with n messages. Its first and
// its last message are sent at the two times.
func (w *World) pageBetween(ctx context.Context, owner message.UserID, n, i int) error {
	const page, stride = 50, 7919 // a prime: the pages are spread over the inbox
	length := min(page, n)
	since := w.sentAt(i * stride % (n - length + 1))
	got, err := w.Client.Inbox(ctx, owner, client.InboxOptions{
		Since: since, Until: since.Add(time.Duration(length) * time.Millisecond), Limit: page, Peek: true,
	})
	if err == nil && (len(got.Messages) != length || got.Next != "") {
		err = fmt.Errorf("a page between two times has %d messages, and next is %q, want %d and none", len(got.Messages), got.Next, length)
	}
	return err
}

func (w *World) login(ctx context.Context, active message.UserID) error {
	got, err := w.Client.Login(ctx, active, client.MaxLoginWait)
	if err == nil && got.State != client.Active {
		err = fmt.Errorf("the state of %s after a login is %s, want %s", active, got.State, client.Active)
	}
	return err
}
