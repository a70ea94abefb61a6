package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
)

// report is the outcome of a check.
type report struct {
	Messages int `json:"messages"`
	Edges    int `json:"edges"`
	// Inboxes counts the inboxes that check read: those of all users who were ever seen, or should get a message.
	Inboxes int `json:"inboxes"`
	// Perhaps counts the messages that may be in an inbox or not, because they were sent while an edge was changing.
	Perhaps int `json:"perhaps"`
	// Delivered and Skipped are the sums that follow from the input, Either is how many deliveries may be one or the other,
	// since their recipient came back; SaidDelivered and SaidSkipped are the sums of what the server says of its messages.
	Delivered     int64 `json:"delivered"`
	Skipped       int64 `json:"skipped"`
	Either        int64 `json:"either"`
	SaidDelivered int64 `json:"said_delivered"`
	SaidSkipped   int64 `json:"said_skipped"`
	// Pages are by the sizes that were asked for.
	Pages []*pageStatistics `json:"pages"`
	Looks lookStatistics    `json:"looks"`
	Gaps  gapStatistics     `json:"gaps"`
	Twins twinStatistics    `json:"twins"`
	// Wrong counts the findings, of which Findings tells how many there are of each kind, and Examples some.
	Wrong    int                 `json:"wrong"`
	Findings map[string]int      `json:"findings"`
	Examples map[string][]string `json:"examples"`
	Seconds  float64             `json:"seconds"`

	mu       sync.Mutex
	examples int
	gaps     map[string]gap // by user
}

// lookStatistics counts the checks of users who returned.
type lookStatistics struct {
	// Users and Looks count the users who looked, and their looks. Provisional counts the first pages that were not complete.
	Users       int `json:"users"`
	Looks       int `json:"looks"`
	Provisional int `json:"provisional"`
	// Read counts messages that were shown, all of which were checked.
	Read int `json:"read"`
	// Compared counts logins of which was and recovered were checked, Recovered is the sum of what all of them recovered.
	Compared  int   `json:"compared"`
	Recovered int64 `json:"recovered"`
}

func (l *lookStatistics) add(look look) {
	l.Looks++
	l.Read += len(look.Read.IDs)
	if !look.Read.Complete {
		l.Provisional++
	}
	if look.Recovered != nil {
		l.Recovered += *look.Recovered
	}
}

// gapStatistics tells of the gaps that there have to be.
type gapStatistics struct {
	// Gaps counts them, Messages the messages in them.
	Gaps     int `json:"gaps"`
	Messages int `json:"messages"`
	// Paged counts how often one was paged through, with all page sizes, Pages the pages that showed some of it.
	Paged int `json:"paged"`
	Pages int `json:"pages"`
}

// twinStatistics tells of the pairs that were compared.
type twinStatistics struct {
	Pairs int `json:"pairs"`
	// Messages counts what both of a pair have.
	Messages int `json:"messages"`
	// Tolerated counts what only one has, and may.
	Tolerated int `json:"tolerated"`
}

func newReport(in input, want *expected, examples int) *report {
	r := &report{
		Messages: len(want.messages), Edges: in.edges, Inboxes: len(want.inboxes),
		Findings: make(map[string]int), Examples: make(map[string][]string), examples: examples,
		Perhaps: want.perhaps, Looks: lookStatistics{Users: len(in.looks)}, gaps: make(map[string]gap),
	}
	for _, m := range want.messages {
		r.Delivered += m.delivered.least
		r.Skipped += m.skipped.least
		r.Either += m.recipients.most - m.delivered.least - m.skipped.least
	}
	return r
}

// add adds a finding.
func (r *report) add(kind, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Wrong++
	r.Findings[kind]++
	if len(r.Examples[kind]) < r.examples {
		r.Examples[kind] = append(r.Examples[kind], fmt.Sprintf(format, args...))
	}
}

// count adds up what the server says.
func (r *report) count(delivered, skipped int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.SaidDelivered += delivered
	r.SaidSkipped += skipped
}

// countPair counts a pair that was compared.
func (r *report) countPair(messages, tolerated int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Twins.Pairs++
	r.Twins.Messages += messages
	r.Twins.Tolerated += tolerated
}

// pages begins the statistics of pages of a size.
func (r *report) pages(size int) *pageStatistics {
	p := &pageStatistics{Size: size, Buckets: make(map[int]int)}
	r.Pages = append(r.Pages, p)
	return p
}

// pageStatistics tells how many buckets the server read for pages of one size.
type pageStatistics struct {
	Size int `json:"size"`
	// Pages counts all pages, Full those that had as many messages as were asked for.
	Pages int `json:"pages"`
	Full  int `json:"full"`
	// Average and Most are over all pages, and AverageFull over the full ones.
	Average     float64 `json:"average_buckets"`
	AverageFull float64 `json:"average_buckets_full"`
	Most        int     `json:"most_buckets"`
	// Buckets tells for how many pages so many buckets were read.
	Buckets map[int]int `json:"pages_by_buckets"`

	mu           sync.Mutex
	sum, fullSum int
}

func (p *pageStatistics) add(buckets, messages int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Pages++
	p.sum += buckets
	p.Buckets[buckets]++
	p.Most = max(p.Most, buckets)
	p.Average = float64(p.sum) / float64(p.Pages)
	if messages == p.Size {
		p.Full++
		p.fullSum += buckets
		p.AverageFull = float64(p.fullSum) / float64(p.Full)
	}
}

func (r *report) print(w io.Writer) error {
	p := &printer{w: w}
	p.printf("%d messages, %d edges, %d inboxes read in %.1f s\n", r.Messages, r.Edges, r.Inboxes, r.Seconds)
	p.printf("deliveries: %d, skipped: %d, either: %d, together %d\n", r.Delivered, r.Skipped, r.Either, r.Delivered+r.Skipped+r.Either)
	p.printf("the server says: %d, %d, together %d\n", r.SaidDelivered, r.SaidSkipped, r.SaidDelivered+r.SaidSkipped)
	for _, s := range r.Pages {
		p.printf("pages of %d: %d (%d full), buckets read: %.3f on average (full pages: %.3f), %d at most;", s.Size, s.Pages, s.Full, s.Average, s.AverageFull, s.Most)
		for _, buckets := range slices.Sorted(maps.Keys(s.Buckets)) {
			p.printf(" %d for %d", buckets, s.Buckets[buckets])
		}
		p.printf("\n")
	}
	if l := r.Looks; l.Looks > 0 {
		p.printf("%d users looked %d times and were shown %d messages; %d first pages were provisional; of %d logins was and recovered were compared; %d messages recovered\n",
			l.Users, l.Looks, l.Read, l.Provisional, l.Compared, l.Recovered)
	}
	if g := r.Gaps; g.Gaps > 0 {
		p.printf("gaps: %d with %d messages, paged through %d times, on %d pages\n", g.Gaps, g.Messages, g.Paged, g.Pages)
	}
	if t := r.Twins; t.Pairs > 0 {
		p.printf("twins: %d pairs with %d messages each have; %d differences tolerated\n", t.Pairs, t.Messages, t.Tolerated)
	}
	if r.Perhaps > 0 {
		p.printf("sent while an edge was being changed, and therefore uncertain: %d\n", r.Perhaps)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Findings)) {
		p.printf("%s: %d\n", kind, r.Findings[kind])
		for _, example := range r.Examples[kind] {
			p.printf("  %s\n", example)
		}
	}
	if r.Wrong == 0 {
		p.printf("nothing is missing, extra, double, out of order or changed\n")
	}
	return p.err
}

// printer prints until the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}
