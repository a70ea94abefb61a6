// Package overview says what all processes on a store do, what needs an operator, and what dormancy saves.
//
// An overview has parts from several sources. Each part has a deadline of its own and fails alone: it is left out, and a warning names it.
package overview

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/clocks"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/internal/tally"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/userstate"
)

const (
	// patience is how long a part may take.
	patience = 2 * time.Second
	// fresh is how long an overview is the answer.
	fresh = time.Second
	// counted is how many dead letters are counted by reason, and how many rehydrations at all.
	counted = 1000
	// alive is how recently a process must have reported itself: three times in which it should.
	alive = 30 * time.Second
)

// Bus is what a Service reads of the bus.
type Bus interface {
	bus.Monitor
	DeadLetters(ctx context.Context, after uint64, limit int) ([]event.Filed, error)
}

// Sources are where the parts come from. All are required but Room.
type Sources struct {
	Bus Bus
	// Processes reads the rows of processes; Rows returns what this process has read last: see settings.Current.
	Processes func(ctx context.Context) ([]settings.Process, error)
	Rows      func() (now, before []settings.Process, totals tally.Counters)
	// Due and Load are those of userstate.Store and of this process's rehydrate.Service.
	Due  func(ctx context.Context, dead userstate.Dead, limit int) ([]userstate.Looked, error)
	Load func() rehydrate.Load
	// Clocks returns how the clocks compared last.
	Clocks func() []clocks.Reading
	// Retention is that of a retention.Walker, and Round returns its record.
	Retention func(ctx context.Context) (retention.Status, error)
	Round     func(ctx context.Context) (retention.Round, error)
	// Room returns an error that says how full the disk is, if it is nearly full. It is nil if the disk is not known.
	Room func() error
	Now  func() time.Time
}

// Service computes overviews. It is safe for concurrent use.
type Service struct {
	sources Sources

	mu   sync.Mutex
	at   time.Time
	last client.Overview
	// reasons are those of the newest dead letters when letters was counted.
	letters bus.Letters
	reasons map[string]int64
}

// New returns a Service.
func New(sources Sources) *Service { return &Service{sources: sources} }

// Overview returns an overview that is at most a second old. It waits for the sources, together for about two seconds at most. The caller must
// not change it.
func (s *Service) Overview(ctx context.Context) client.Overview {
	s.mu.Lock()
	defer s.mu.Unlock()
	if age := s.sources.Now().Sub(s.at); s.at.IsZero() || age < 0 || age >= fresh {
		s.last = s.read(context.WithoutCancel(ctx)) // others wait for it, too
		s.at = s.sources.Now()
	}
	return s.last
}

// part is a part of the overview that a source may fail to return.
type part struct {
	name string
	read func(ctx context.Context, o *client.Overview) error
}

func (s *Service) read(ctx context.Context) (o client.Overview) {
	parts := []part{
		{"processes", s.processes}, {"lanes", s.lanes}, {"dead_letters", s.deadLetters}, {"rehydrations", s.rehydrations}, {"retention", s.retention},
	}
	errs := make([]error, len(parts))
	var reading sync.WaitGroup
	for i, p := range parts { // each writes a field of its own
		reading.Go(func() {
			bounded, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			errs[i] = p.read(bounded, &o)
		})
	}
	reading.Wait()
	for _, r := range s.sources.Clocks() {
		o.Clocks = append(o.Clocks, client.ClockReading{
			Server: r.Server, AheadSeconds: r.Ahead.Seconds(), WithinSeconds: r.Within.Seconds(), About: true, Off: r.Off, Held: r.Apart,
		})
	}
	_, _, totals := s.sources.Rows()
	o.Totals = &client.Totals{
		Accepted: totals.Accepted, Delivered: totals.Delivered, DeliveredBytes: totals.DeliveredBytes,
		Skipped: skipped(totals), Rebuilt: rebuilt(totals), About: true,
	}
	for i, err := range errs {
		if err != nil {
			o.Warnings = append(o.Warnings, client.Warning{Kind: client.WarnUnavailable, Text: fmt.Sprintf(
				"%s cannot be shown: look whether the store and the bus answer (GET /readyz): %v", parts[i].name, err)})
		}
	}
	o.Warnings = append(o.Warnings, s.warnings(o)...)
	return o
}

func (s *Service) processes(ctx context.Context, o *client.Overview) error {
	rows, err := s.sources.Processes(ctx)
	if err != nil {
		return err
	}
	var newest time.Time
	for _, row := range rows {
		if row.Seen.After(newest) {
			newest = row.Seen
		}
	}
	rates := s.rates()
	for _, row := range rows {
		p := client.ProcessLoad{
			Name: row.Name, Role: row.Role, Host: row.Host, Version: row.Version, Address: row.Address, State: row.State,
			Started: client.Time{Time: row.Started}, Seen: client.Time{Time: row.Seen}, Alive: newest.Sub(row.Seen) <= alive,
		}
		if r, ok := rates[row.Name]; ok && p.Alive {
			p.AcceptedRate, p.DeliveredRate, p.About = new(r.of(r.Accepted)), new(r.of(r.Delivered)), true
		}
		o.Processes = append(o.Processes, p)
	}
	return nil
}

// done is what a process has done in some time.
type done struct {
	tally.Counters
	in time.Duration
}

// of returns how many that are in a second.
func (d done) of(n int64) float64 { return float64(n) / d.in.Seconds() }

// rates returns what each process has done between its last two reports. It has none of a process that has not reported itself since.
func (s *Service) rates() map[string]done {
	now, before, _ := s.sources.Rows()
	rates := make(map[string]done)
	for _, p := range now {
		i := slices.IndexFunc(before, func(b settings.Process) bool { return b.Name == p.Name })
		if i >= 0 && before[i].Seen.Before(p.Seen) {
			rates[p.Name] = done{Counters: p.Counters.Minus(before[i].Counters), in: p.Seen.Sub(before[i].Seen)}
		}
	}
	return rates
}

func (s *Service) lanes(ctx context.Context, o *client.Overview) error {
	backlog, err := s.sources.Bus.Backlog(ctx)
	if err != nil {
		return err
	}
	rates := s.rates()
	lane := func(name string, queue bus.Queue, of event.Lane) {
		l := client.LaneLoad{Lane: name, Waiting: int64(queue.Messages), OldestSeconds: queue.Age(s.sources.Now()).Seconds()} //nolint:gosec // no stream has so many
		if len(rates) > 0 {
			l.Rate, l.About, l.AtLeast = new(float64), true, name == client.LaneRouting
		}
		for _, r := range rates {
			*l.Rate += r.of(*r.Finished.In(of))
		}
		if l.Waiting > 0 && l.Rate != nil && *l.Rate > 0 {
			l.SecondsToEmpty = new(float64(l.Waiting) / *l.Rate)
		}
		o.Lanes = append(o.Lanes, l)
	}
	lane(client.LaneRouting, backlog.Published, event.Direct)
	lane(string(event.Direct), bus.Queue{}, event.Direct)
	for _, name := range event.Lanes() {
		lane(string(name), backlog.Tasks[name], name)
	}
	return nil
}

// deadLetters reads the newest letters only if there are others than the last time.
func (s *Service) deadLetters(ctx context.Context, o *client.Overview) error {
	letters, err := s.sources.Bus.Letters(ctx)
	if err != nil {
		return err
	}
	count := client.DeadLetterCount{ByStage: make(map[string]int64)}
	same := letters.Last == s.letters.Last && len(letters.ByStage) == len(s.letters.ByStage)
	for stage, n := range letters.ByStage {
		count.ByStage[stage] = int64(n) //nolint:gosec // no stream has so many
		count.Total += count.ByStage[stage]
		same = same && n == s.letters.ByStage[stage]
	}
	if !same {
		after := uint64(0)
		if count.Total > counted {
			after = letters.Last - counted
		}
		filed, err := s.sources.Bus.DeadLetters(ctx, after, counted)
		if err != nil {
			return err
		}
		s.letters, s.reasons = letters, make(map[string]int64)
		for _, f := range filed {
			s.reasons[f.Reason]++
		}
	}
	count.ByReason, count.AtLeast = s.reasons, count.Total > counted
	o.DeadLetters = &count
	return nil
}

// everyLease holds each lease, dead or not.
var everyLease = userstate.Dead{Before: time.UnixMilli(1 << 47).UTC()}

func (s *Service) rehydrations(ctx context.Context, o *client.Overview) error {
	due, err := s.sources.Due(ctx, everyLease, counted)
	if err != nil {
		return err
	}
	load, oldest := s.sources.Load(), time.Time{}
	for _, user := range due {
		if since := user.State.Lease.Since; user.Err == nil && (oldest.IsZero() || since.Before(oldest)) {
			oldest = since
		}
	}
	running := min(load.Running, len(due))
	o.Rehydrations = &client.RehydrationLoad{
		Waiting: int64(len(due) - running), Running: int64(running), About: len(due) != load.Waiting+load.Running, AtLeast: len(due) == counted,
	}
	if !oldest.IsZero() {
		o.Rehydrations.OldestSeconds = max(0, s.sources.Now().Sub(oldest).Seconds())
	}
	return nil
}

func (s *Service) retention(ctx context.Context, o *client.Overview) error {
	status, err := s.sources.Retention(ctx)
	if err != nil {
		return err
	}
	o.Retention = new(Retention(status))
	return nil
}

// Retention returns the status of the walk over all users as clients see it.
func Retention(status retention.Status) (shown client.RetentionStatus) {
	if !status.AsOf.IsZero() {
		shown.AsOf = &status.AsOf
	}
	if status.Walked {
		lowWater, overdue := status.LowWater, status.Overdue.String()
		lowWater[6], lowWater[8] = 0x7f, 0xbf // the greatest UUID of version 7 that is not above: clients take no other
		shown.LowWater, shown.OldestOverdue = &lowWater, &overdue
	}
	return shown
}
