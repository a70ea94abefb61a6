package trace

import "time"

// Prices are what the parts of a policy cost. The costs are in seconds of whatever is scarce, for example of a processor.
type Prices struct {
	// Copy is the cost of a copy of a message in an inbox. Skipping is that of finding out that the user is dormant.
	Copy, Skipping float64
	// Rebuild is the cost of rebuilding an inbox, and RebuildMessage that of each message in it, besides.
	Rebuild, RebuildMessage float64
	// Limit is the greatest number of messages in a rebuild: the newest ones. The others are read when somebody asks for them. 0 means no limit.
	Limit int
	// Page is the time until a user sees the first page of an inbox that is up to date, and FirstPage of one that is to be rebuilt.
	Page, FirstPage time.Duration
	// Bytes is the size of a copy.
	Bytes float64
}

// Result is what a policy costs.
type Result struct {
	// Copies is the number of messages that were copied as they came, and Skipped of those that were not.
	Copies, Skipped int
	// Rebuilds is the number of inboxes that were rebuilt, and Rebuilt the number of messages that were appended to them.
	Rebuilds, Rebuilt int
	// Views is the number of views, rebuilt inboxes included.
	Views int
}

// Cost is the cost of copies and rebuilds.
func (p Prices) Cost(r Result) float64 {
	return p.Copy*float64(r.Copies) + p.Skipping*float64(r.Skipped) + p.Rebuild*float64(r.Rebuilds) + p.RebuildMessage*float64(r.Rebuilt)
}

// Waited is the time that users waited for first pages.
func (p Prices) Waited(r Result) time.Duration {
	return p.Page*time.Duration(r.Views-r.Rebuilds) + p.FirstPage*time.Duration(r.Rebuilds)
}

// Written is the size of all copies, rebuilt ones included.
func (p Prices) Written(r Result) float64 { return p.Bytes * float64(r.Copies+r.Rebuilt) }

// rebuilt returns how many of the skipped messages are in a rebuild.
func (p Prices) rebuilt(skipped int) int {
	if p.Limit == 0 {
		return skipped
	}
	return min(skipped, p.Limit)
}

func (r Result) plus(other Result) Result {
	r.Copies += other.Copies
	r.Skipped += other.Skipped
	r.Rebuilds += other.Rebuilds
	r.Rebuilt += other.Rebuilt
	r.Views += other.Views
	return r
}

// Policy says whether an inbox is kept warm. At is the time of a message, and past is all that has happened in the inbox before: the last view is in
// it. A user who never looked is dormant under every policy.
type Policy interface {
	Warm(past Inbox, lastView, at time.Time) bool
}

// Threshold keeps an inbox warm for a time after each view.
type Threshold time.Duration

// Days returns a threshold of a number of days.
func Days(n int) Threshold { return Threshold(time.Duration(n) * day) }

// Days is the number of whole days.
func (d Threshold) Days() int { return int(time.Duration(d) / day) }

// Warm implements Policy.
func (d Threshold) Warm(_ Inbox, lastView, at time.Time) bool {
	return at.Sub(lastView) <= time.Duration(d)
}

// Replay computes what a policy does from a time on. What happened before is known to the policy. An inbox that has become dormant stays dormant until
// its owner looks.
func (t *Trace) Replay(policy Policy, p Prices, from time.Time) (total Result) {
	for _, inbox := range t.Inboxes {
		total = total.plus(inbox.replay(policy, p, from))
	}
	return total
}

func (events Inbox) replay(policy Policy, p Prices, from time.Time) (r Result) {
	var lastView time.Time
	skipped := 0
	for i, e := range events {
		counts := !e.At.Before(from)
		switch {
		case e.View:
			if counts {
				r.Views++
			}
			if counts && skipped > 0 {
				r.Rebuilds++
				r.Rebuilt += p.rebuilt(skipped)
			}
			lastView, skipped = e.At, 0
		case skipped > 0 || lastView.IsZero() || !policy.Warm(events[:i], lastView, e.At):
			skipped++
			if counts {
				r.Skipped++
			}
		case counts:
			r.Copies++
		}
	}
	return r
}

// Best computes the cheapest result from a time on, with hindsight: who knows when each user looks next copies all messages until then, or none. That
// is a lower bound for every policy if skipping costs no more than a copy: nothing between all and none is cheaper, because a further skipped message
// never costs more than the one before. It may copy for users who have never looked, and begins with inboxes that are up to date.
func (t *Trace) Best(p Prices, from time.Time) (total Result) {
	for _, events := range t.Inboxes {
		waiting := 0
		for _, e := range events {
			switch {
			case e.At.Before(from):
			case !e.View:
				waiting++
			default:
				warm, cold := Result{Views: 1, Copies: waiting}, Result{Views: 1}
				if waiting > 0 {
					cold = Result{Views: 1, Skipped: waiting, Rebuilds: 1, Rebuilt: p.rebuilt(waiting)}
				}
				if p.Cost(warm) <= p.Cost(cold) {
					total = total.plus(warm)
				} else {
					total = total.plus(cold)
				}
				waiting = 0
			}
		}
		total = total.plus(Result{Skipped: waiting}) // never looked at
	}
	return total
}
