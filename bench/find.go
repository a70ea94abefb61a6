package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fanmail/fanmail/bench/mongolayouts"
	"github.com/fanmail/fanmail/internal/bench"
	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// FindOptions configure env.Find.
type FindOptions struct {
	// Entries is the number of messages in the inbox, at most MaxFindEntries, and Page that of a page.
	Entries, Page int
	// Requests is how often each first page is read, and Walks how often all pages are.
	Requests, Walks int
	// Late says that the attributes are declared when half of the messages are in the inbox, and not before.
	Late bool
	// Inboxes is the number of inboxes that are appended to, Messages how many messages each gets in a round, and Rounds how many rounds there
	// are.
	Inboxes, Messages, Rounds int
	// Seed decides which messages match.
	Seed uint64
}

// MaxFindEntries is the greatest number of messages in the inbox.
const MaxFindEntries = 1_000_000

// findable are the attributes of the messages: kind has four values, and serial has another one in each message.
var findable = attribute.NewSet(2, []attribute.Declaration{
	{Name: "kind", Type: attribute.String, Number: 1}, {Name: "serial", Type: attribute.Number, Number: 2},
})

// Find measures finding messages of one inbox by declared attributes, and appending messages whose attributes are declared.
func (e env) Find(ctx context.Context, o FindOptions) (Report, error) {
	report := Report{Benchmark: "find", Store: e.Config.Store}
	if err := e.find(ctx, o, &report); err != nil {
		return Report{}, err
	}
	rows, err := e.declaring(ctx, o)
	report.Rows = append(report.Rows, rows...)
	report.Facts = append(report.Facts, Fact{Name: "load average after", Value: loadAverage()})
	return report, err
}

// find measures finding messages.
func (e env) find(ctx context.Context, o FindOptions, report *Report) (err error) {
	w, err := e.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close(ctx)) }()
	if report.Facts, err = e.facts(ctx); err != nil {
		return err
	}
	declared := "before the first message"
	if o.Late {
		declared = "after half of the messages"
	}
	report.Facts = append(report.Facts, Fact{Name: "attributes declared", Value: declared})
	f := &finding{world: w, o: o}
	f.draw()
	e.Tell(fmt.Sprintf("filling an inbox with %d messages", o.Entries))
	if err := f.fill(ctx); err != nil {
		return err
	}
	sizes, err := f.inboxSizes(ctx, true)
	if err != nil {
		return err
	}
	if err := f.storeMatches(ctx); err != nil {
		return err
	}
	if err := bench.Settle(ctx); err != nil {
		return err
	}
	for _, s := range f.searches {
		e.Tell("finding " + s.name)
		figures, err := f.measure(ctx, s, f.page)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		report.Rows = append(report.Rows, Row{Case: s.name, Figures: figures})
	}
	report.Rows = append(report.Rows, Row{Case: "stored", Figures: sizes})
	return nil
}

// finder is the owner of the inbox.
const finder = message.UserID("finder")

type finding struct {
	*world
	o        FindOptions
	entries  []bucket.Entry
	searches []search
	matches  map[message.ID]bool // of any search
}

// search is a search with its conditions, and with the ids that it finds, newest first.
type search struct {
	name  string
	attrs []string
	want  []message.ID
}

// draw draws the messages and the searches.
func (f *finding) draw() {
	n := f.o.Entries
	share := func(of int) int { return max(1, n/of) }
	random := rand.New(rand.NewPCG(f.o.Seed, 0)) //nolint:gosec // it is no secret
	ranks, serials := random.Perm(n), random.Perm(n)
	f.entries = f.textEntries(0, n, random)
	kinds := make([]string, n)
	for i, rank := range ranks {
		for _, kind := range []struct {
			name  string
			share int
		}{{"once", share(100_000)}, {"seldom", share(1000)}, {"often", share(10)}} {
			if kinds[i] == "" && rank < kind.share {
				kinds[i] = kind.name
			}
			rank -= kind.share
		}
		if kinds[i] == "" {
			kinds[i] = "mostly"
		}
		f.entries[i].Attrs = fmt.Appendf(nil, `{"kind":%q,"serial":%d}`, kinds[i], serials[i])
	}
	for _, s := range []struct{ name, kind string }{{"1 in 10", "often"}, {"1 in 1,000", "seldom"}, {f.rarest(), "once"}} {
		f.add("4 values, "+s.name, func(i int) bool { return kinds[i] == s.kind }, "kind:eq:"+s.kind)
	}
	for _, s := range []struct {
		name  string
		share int
	}{{"1 in 10", share(10)}, {"1 in 1,000", share(1000)}} {
		from := random.IntN(n - s.share + 1)
		f.add("a value each, "+s.name, func(i int) bool { return serials[i] >= from && serials[i] < from+s.share },
			fmt.Sprintf("serial:gte:%d", from), fmt.Sprintf("serial:lt:%d", from+s.share))
	}
	one := random.IntN(n)
	f.add("a value each, "+f.rarest(), func(i int) bool { return serials[i] == one }, fmt.Sprintf("serial:eq:%d", one))
}

// rarest names the condition with the fewest matches.
func (f *finding) rarest() string {
	if len(f.entries) < 100_000 {
		return "one"
	}
	return "1 in 100,000"
}

// textEntries is entries with bodies that compress no better than texts do: of random letters.
func (w *world) textEntries(first, n int, random *rand.Rand) []bucket.Entry {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	entries := w.Entries(first, n)
	for i := range entries {
		body := make([]byte, w.Env.Body)
		for k := range body {
			body[k] = letters[random.IntN(len(letters))]
		}
		entries[i].Body = string(body)
	}
	return entries
}

// add adds a search for the entries that match.
func (f *finding) add(name string, match func(int) bool, attrs ...string) {
	s := search{name: name, attrs: attrs}
	if f.matches == nil {
		f.matches = make(map[message.ID]bool)
	}
	for i, e := range slices.Backward(f.entries) {
		if match(i) {
			s.want = append(s.want, e.ID)
			f.matches[e.ID] = true
		}
	}
	f.searches = append(f.searches, s)
}

// fill declares the attributes, and fills the inbox.
func (f *finding) fill(ctx context.Context) error {
	if err := f.See(ctx, f.Env.Now(), []message.UserID{finder}); err != nil {
		return err
	}
	parts := [][]bucket.Entry{nil, f.entries}
	if f.o.Late {
		half := len(f.entries) / 2
		parts = [][]bucket.Entry{f.entries[:half], f.entries[half:]}
	}
	into := f.appending([]message.UserID{finder})
	for i, part := range parts {
		if i == 1 {
			if err := f.declare(ctx, findable.All()); err != nil {
				return err
			}
		}
		for some := range slices.Chunk(part, bench.Together) {
			if err := into.append(ctx, some); err != nil {
				return err
			}
		}
	}
	return nil
}

// declare declares attributes, in the order of their numbers.
func (w *world) declare(ctx context.Context, all []attribute.Declaration) error {
	for _, d := range all {
		if err := w.Client.DeclareAttribute(ctx, client.Attribute{Name: d.Name, Type: d.Type}); err != nil {
			return fmt.Errorf("declare %s: %w", d.Name, err)
		}
	}
	return nil
}

// appending appends entries to inboxes, and remembers where their heads are.
type appending struct {
	appender *bucket.Appender
	owners   []message.UserID
	heads    []bucket.Hint
}

func (w *world) appending(owners []message.UserID) *appending {
	return &appending{appender: w.App.Appender(), owners: owners, heads: make([]bucket.Hint, len(owners))}
}

// append appends entries to all inboxes. It requires that none of them was there.
func (a *appending) append(ctx context.Context, entries []bucket.Entry) error {
	appends := make([]bucket.Append, len(a.owners))
	for i, owner := range a.owners {
		appends[i] = bucket.Append{Owner: owner, Hint: a.heads[i], Entries: entries}
	}
	results, err := a.appender.Append(ctx, appends)
	if err != nil {
		return fmt.Errorf("append: %w", err)
	}
	for i, r := range results {
		if r.Err == nil && r.New != len(entries) {
			r.Err = fmt.Errorf("%d entries are new, want %d", r.New, len(entries))
		}
		if r.Err != nil {
			return fmt.Errorf("append to the inbox of %s: %w", a.owners[i], r.Err)
		}
		a.heads[i] = r.Head
	}
	return nil
}

// storeMatches stores the messages that a search finds, because pages read whom these are for.
func (f *finding) storeMatches(ctx context.Context) error {
	var found []bucket.Entry
	for _, e := range f.entries {
		if f.matches[e.ID] {
			found = append(found, e)
		}
	}
	for some := range slices.Chunk(found, bench.Together) {
		if err := f.store(ctx, finder, some); err != nil {
			return err
		}
	}
	return nil
}

// inboxSizes returns what the inboxes take, and each index if that is asked for. The embedded store has no index, and the size is that of all of its
// files.
func (w *world) inboxSizes(ctx context.Context, each bool) ([]Figure, error) {
	if w.Env.OnMongoDB() {
		s, err := mongolayouts.InboxSizes(ctx, string(w.Config.MongoDB.URI), w.Config.MongoDB.Database)
		return figuresOf(s, each), err
	}
	if err := bench.Settle(ctx); err != nil {
		return nil, err
	}
	files, err := w.size()
	return []Figure{figure("files", files, "MiB")}, err
}

// figuresOf returns the sizes of a collection. The names of the indexes are the server's.
func figuresOf(s mongolayouts.Sizes, each bool) []Figure {
	var sum float64
	var indexes []Figure
	for _, x := range s.Indexes {
		sum += x.Bytes / (1 << 20)
		if each {
			indexes = append(indexes, figure("index "+x.Name, x.Bytes/(1<<20), "MiB"))
		}
	}
	return append([]Figure{
		figure("documents", s.Documents/(1<<20), "MiB"), figure("on disk", s.Storage/(1<<20), "MiB"), figure("all indexes", sum, "MiB"),
	}, indexes...)
}

// walk is what pages have told.
type walk struct {
	ids                         []message.ID
	requests, buckets, messages int
	next                        client.Cursor
	ended                       bool
}

// pager continues a walk by one request.
type pager func(ctx context.Context, s search, w *walk) error

// page reads a page of the server.
func (f *finding) page(ctx context.Context, s search, w *walk) error {
	page, err := f.Client.Inbox(ctx, finder, client.InboxOptions{Limit: f.o.Page, Attrs: s.attrs, Before: w.next, Peek: true})
	for _, m := range page.Messages {
		w.ids = append(w.ids, m.ID)
	}
	w.requests++
	w.buckets += page.BucketsRead
	w.messages += page.MessagesRead
	w.next, w.ended = page.Next, page.Next == ""
	return err
}

// measure reads the first request, the first page and all pages of a search.
func (f *finding) measure(ctx context.Context, s search, page pager) ([]Figure, error) {
	var first, full, all bench.Times
	for range f.o.Requests {
		var w walk
		began := time.Now() //nolint:forbidigo // what is measured is time
		for !w.ended && len(w.ids) < f.o.Page {
			if err := page(ctx, s, &w); err != nil {
				return nil, err
			}
			if w.requests == 1 {
				first = append(first, time.Since(began))
			}
		}
		full = append(full, time.Since(began))
		if want := s.want[:min(f.o.Page, len(s.want))]; !slices.Equal(w.ids[:min(f.o.Page, len(w.ids))], want) {
			return nil, fmt.Errorf("the first page has %d messages, want %d others", len(w.ids), len(want))
		}
	}
	var w walk
	for range f.o.Walks {
		w = walk{}
		began := time.Now() //nolint:forbidigo // what is measured is time
		for !w.ended {
			if err := page(ctx, s, &w); err != nil {
				return nil, err
			}
		}
		all = append(all, time.Since(began))
		if !slices.Equal(w.ids, s.want) {
			return nil, fmt.Errorf("all pages have %d messages, and %d match, or they are others", len(w.ids), len(s.want))
		}
	}
	return []Figure{
		figure("found", float64(len(w.ids)), ""),
		figure("first request p50", first.Percentile(50), "ms"),
		figure("first page p50", full.Percentile(50), "ms"),
		figure("all pages p50", all.Percentile(50), "ms"),
		figure("requests", float64(w.requests), ""),
		figure("buckets read", float64(w.buckets), ""),
		figure("messages read", float64(w.messages), ""),
	}, nil
}
