package trace

import (
	"math"
	"sort"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

const day = 24 * time.Hour

// recently is the time over which habits are observed: how often a user looks, and how many messages come.
const recently = 30 * day

// Habits is a Policy that keeps an inbox warm while the copies expected until its owner looks again cost less than the rebuild expected otherwise. The
// rule is that of A. Silberstein et al., Feeding Frenzy: Selectively Materializing Users' Event Feeds, SIGMOD 2010, which compares the rates of events
// and of views. Here the time until the next view is not taken from a rate alone, because those who have been away for long mostly stay away: it is
// learned how likely users who look as often, and have been away as long, look within each further step of time.
type Habits struct {
	prices Prices
	// looked and risked are the numbers of views, and the time without a view in days, of users with each habit, in each step since their last view.
	looked, risked [habits][len(steps) + 1]float64
	// rates are how many users out of one with the habit look per day, in each step.
	rates [habits][len(steps) + 1]float64
}

// steps are the ends of the steps of time since a view, in days. The last step has no end.
var steps = [...]float64{0.25, 0.5, 1, 2, 3, 5, 7, 10, 14, 21, 30, 45, 60, 90, 120, 180, 270, 365}

// habits is the number of classes of users by how often they looked before their last view. Class 0 did not look recently, class 1 once, and each
// further class twice as often as the one before.
const habits = 7

// Learn learns habits from what happened before a time.
func Learn(t *Trace, until time.Time, prices Prices) *Habits {
	h := &Habits{prices: prices}
	for _, events := range t.Inboxes {
		last := -1
		for i, e := range events {
			if !e.View || !e.At.Before(until) {
				continue
			}
			if last >= 0 {
				h.learn(habit(events[:i], events[last].At), days(e.At.Sub(events[last].At)), true)
			}
			last = i
		}
		if last >= 0 {
			h.learn(habit(events[:last+1], events[last].At), days(until.Sub(events[last].At)), false)
		}
	}
	h.settle()
	return h
}

// learn adds a time without a view that begins with a view, and ends with one if looked is set.
func (h *Habits) learn(class int, away float64, looked bool) {
	begin := 0.0
	for step := range h.risked[class] {
		end := endOf(step)
		h.risked[class][step] += min(away, end) - begin
		if away <= end {
			if looked {
				h.looked[class][step]++
			}
			return
		}
		begin = end
	}
}

func endOf(step int) float64 {
	if step == len(steps) {
		return math.Inf(1)
	}
	return steps[step]
}

// doubt is how many days of observation the step before counts for, so that a step about which little is known is like it.
const doubt = 10

// settle computes the rates of views from what was learned.
func (h *Habits) settle() {
	var looked, risked float64
	for class := range habits {
		for step := range h.risked[class] {
			looked, risked = looked+h.looked[class][step], risked+h.risked[class][step]
		}
	}
	for class := range habits {
		rate := looked / max(risked, doubt)
		for step := range h.rates[class] {
			rate = (h.looked[class][step] + doubt*rate) / (h.risked[class][step] + doubt)
			h.rates[class][step] = rate
		}
	}
}

// Warm implements Policy.
func (h *Habits) Warm(past Inbox, lastView, at time.Time) bool {
	observed := min(days(recently), max(1, days(at.Sub(past[0].At))))
	perDay := float64(arrivals(past, at)) / observed
	likely, within := h.next(habit(past, lastView), days(at.Sub(lastView)))
	copies := 1 + perDay*within
	warm := h.prices.Copy * copies
	rebuilt := copies
	if h.prices.Limit > 0 {
		rebuilt = min(copies, float64(h.prices.Limit))
	}
	cold := h.prices.Skipping*copies + likely*(h.prices.Rebuild+h.prices.RebuildMessage*rebuilt)
	return warm <= cold
}

// next returns how likely a user who has been away for so many days looks within a year, and the days expected until then, or until the year has passed.
func (h *Habits) next(class int, away float64) (likely, within float64) {
	const year = 365
	still := 1.0
	for from, until := away, away+year; from < until; {
		step := sort.SearchFloat64s(steps[:], math.Nextafter(from, math.Inf(1)))
		to := min(endOf(step), until)
		rate := h.rates[class][step]
		stays := math.Exp(-rate * (to - from))
		if rate > 0 {
			within += still * (1 - stays) / rate
		} else {
			within += still * (to - from)
		}
		still *= stays
		from = to
	}
	return 1 - still, within
}

// habit returns the class of a user by the views that came recently before the last one.
func habit(past Inbox, lastView time.Time) int {
	views := 0
	for i := len(past) - 1; i >= 0 && lastView.Sub(past[i].At) < recently; i-- {
		if past[i].View && past[i].At.Before(lastView) {
			views++
		}
	}
	class := 0
	for ; views > 0 && class < habits-1; class++ {
		views /= 2
	}
	return class
}

func arrivals(past Inbox, at time.Time) (n int) {
	for i := len(past) - 1; i >= 0 && at.Sub(past[i].At) < recently; i-- {
		if !past[i].View {
			n++
		}
	}
	return n
}

func days(d time.Duration) float64 { return d.Hours() / 24 }

// Cheapest returns the threshold out of several that costs least before a time.
func (t *Trace) Cheapest(thresholds []Threshold, until time.Time, prices Prices) (cheapest Threshold) {
	before := &Trace{Inboxes: make(map[message.UserID]Inbox, len(t.Inboxes)), Begin: t.Begin, End: until}
	for user, events := range t.Inboxes {
		n := sort.Search(len(events), func(i int) bool { return !events[i].At.Before(until) })
		before.Inboxes[user] = events[:n]
	}
	least := math.Inf(1)
	for _, threshold := range thresholds {
		if cost := prices.Cost(before.Replay(threshold, prices, before.Begin)); cost < least {
			least, cheapest = cost, threshold
		}
	}
	return cheapest
}
