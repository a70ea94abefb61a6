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
	// Inboxes counts the inboxes that check read: those of all users who were ever seen or should get a message.
	Inboxes int `json:"inboxes"`
	// Perhaps counts the messages that an inbox may have or lack, because they were sent while an edge was changing.
	Perhaps int `json:"perhaps"`
	// Delivered and Skipped are the sums that follow from the input. Either counts the deliveries that may be delivered or skipped,
	// because their recipient returned. SaidDelivered and SaidSkipped are the sums that the server reports.
	Delivered     int64          `json:"delivered"`
	Skipped       int64          `json:"skipped"`
	Either        int64          `json:"either"`
	SaidDelivered int64          `json:"said_delivered"`
	SaidSkipped   int64          `json:"said_skipped"`
	Looks         lookStatistics `json:"looks"`
	Gaps          gapStatistics  `json:"gaps"`
	Twins         twinStatistics `json:"twins"`
	// Wrong counts the findings. Findings counts them by kind, and Examples has some of each kind.
	Wrong    int                 `json:"wrong"`
	Findings map[string]int      `json:"findings"`
	Examples map[string][]string `json:"examples"`
	Seconds  float64             `json:"seconds"`

	mu       sync.Mutex
	examples int
	gaps     map[string]gap // by user
}

// lookStatistics counts the checked visits of users.
type lookStatistics struct {
	// Users and Looks count the users who looked, and their looks. Provisional counts the first pages that were not complete.
	Users       int `json:"users"`
	Looks       int `json:"looks"`
	Provisional int `json:"provisional"`
	// Read counts the messages on the pages. All of them were checked.
	Read int `json:"read"`
	// Compared counts the logins whose was and recovered were checked. Recovered is the sum of their recovered messages.
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

// gapStatistics counts the gaps that must exist.
type gapStatistics struct {
	// Gaps counts the gaps, Messages the messages in them.
	Gaps     int `json:"gaps"`
	Messages int `json:"messages"`
	// Paged counts how often a gap was paged through, for all page sizes together. Pages counts the pages that showed a part of a
	// gap.
	Paged int `json:"paged"`
	Pages int `json:"pages"`
}

// twinStatistics counts the compared pairs.
type twinStatistics struct {
	Pairs int `json:"pairs"`
	// Messages counts the messages that both users of a pair have.
	Messages int `json:"messages"`
	// Tolerated counts the messages that only one of a pair has, and may have.
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

// count adds the counts that the server reports for a message.
func (r *report) count(delivered, skipped int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.SaidDelivered += delivered
	r.SaidSkipped += skipped
}

// countPair counts a compared pair.
func (r *report) countPair(messages, tolerated int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Twins.Pairs++
	r.Twins.Messages += messages
	r.Twins.Tolerated += tolerated
}

func (r *report) print(w io.Writer) error {
	p := &printer{w: w}
	p.printf("%d messages, %d edges, %d inboxes read in %.1f s\n", r.Messages, r.Edges, r.Inboxes, r.Seconds)
	p.printf("deliveries: %d, skipped: %d, either: %d, together %d\n", r.Delivered, r.Skipped, r.Either, r.Delivered+r.Skipped+r.Either)
	p.printf("the server says: %d, %d, together %d\n", r.SaidDelivered, r.SaidSkipped, r.SaidDelivered+r.SaidSkipped)
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

// printer prints until the first error, and keeps it.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}
