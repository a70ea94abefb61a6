package settings

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/fanmail/fanmail/internal/tally"
)

// Totals are a record of what processes have done whose rows are forgotten or will be. test/proof/tallies.go checks how it changes.
type Totals struct {
	// Revision counts the changes of the record. A store sets it.
	Revision int64
	// Base is what processes did whose rows are forgotten.
	Base tally.Counters
	// Taken has what the rows said of processes that seemed to have ended, by name.
	Taken map[string]tally.Counters
}

// Sum returns what all processes have done, those with the given rows among them. The rows were read after t. A process that goes on after its
// row was taken is counted once, because counters only rise.
func (t Totals) Sum(rows []Process) tally.Counters {
	sum, left := t.Base, maps.Clone(t.Taken)
	for _, p := range rows {
		sum = sum.Plus(left[p.Name].Max(p.Counters))
		delete(left, p.Name)
	}
	for _, taken := range left {
		sum = sum.Plus(taken)
	}
	return sum
}

// settled returns t with the counters of dead rows, and with those in Base that have no row any more. A name of Taken had a row before t was read,
// and the rows were read after that, so this row is forgotten, and no process makes it again. It reports whether there is a change.
func (t Totals) settled(rows []Process, now time.Time) (next Totals, changed bool) {
	next = Totals{Base: t.Base, Taken: make(map[string]tally.Counters)}
	for _, p := range rows {
		was, taken := t.Taken[p.Name]
		is := was
		if now.Sub(p.Seen) > seenWithin {
			is = was.Max(p.Counters)
		}
		if changed = changed || is != was; taken || is != was {
			next.Taken[p.Name] = is
		}
	}
	for name, c := range t.Taken {
		if _, there := next.Taken[name]; !there {
			next.Base, changed = next.Base.Plus(c), true
		}
	}
	return next, changed
}

// settle records what dead processes have done, and then has their rows forgotten that are old.
func (c *Current) settle(ctx context.Context, totals Totals, rows []Process, now time.Time) error {
	if next, changed := totals.settled(rows, now); changed {
		err := c.store.ReplaceTotals(ctx, totals, next)
		if errors.Is(err, ErrChanged) {
			return nil // another process was first: the next report looks again
		}
		if err != nil {
			return err
		}
	}
	for _, p := range rows {
		if now.Sub(p.Seen) > Forget {
			if err := c.store.Forget(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// tell reports the process, and returns the time by the store's clock. If the row was forgotten, the process begins again under a new name, with what
// it has done since the last report that the row may have had: that report is in the totals.
func (c *Current) tell(ctx context.Context) (time.Time, error) {
	c.telling.Lock()
	defer c.telling.Unlock()
	now, err := c.send(ctx, c.opts.Tally.Read())
	if errors.Is(err, ErrForgotten) {
		c.base, c.name = c.sent, NewName(c.opts.Process.Host)
		now, err = c.send(ctx, c.sent) // makes the row
	}
	return now, err
}

// send reports what the process has done up to a reading of its Tally.
func (c *Current) send(ctx context.Context, done tally.Counters) (time.Time, error) {
	p := c.opts.Process
	p.Name, p.State, p.Counters = c.name, Running, done.Minus(c.base)
	if c.stopping.Load() {
		p.State = Stopping
	}
	now, err := c.store.Report(ctx, p)
	if !errors.Is(err, ErrForgotten) {
		c.sent = done
	}
	return now, err
}
