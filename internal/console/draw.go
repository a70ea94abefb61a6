package console

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/fanmail/fanmail/pkg/client"
)

const (
	// sampleEvery and hour are the distance of samples and how many are kept: those of an hour.
	sampleEvery = 10 * time.Second
	hour        = 360
	// curveHeight is the height of a curve, in units of its drawing; its width is hour.
	curveHeight = 60
)

// history keeps the totals of the last hour, from the overviews that were shown. It is safe for concurrent use.
type history struct {
	mu      sync.Mutex
	samples []sample
}

type sample struct {
	at                  time.Time
	accepted, delivered int64
}

func (h *history) add(now time.Time, totals *client.Totals) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if totals == nil || len(h.samples) > 0 && now.Sub(h.samples[len(h.samples)-1].at) < sampleEvery {
		return
	}
	h.samples = append(h.samples, sample{now, totals.Accepted, totals.Delivered})
	h.samples = h.samples[max(0, len(h.samples)-hour):]
}

// curve is a rate over the last hour. Points are those of an SVG polyline.
type curve struct {
	Name, Points string
	Now, Most    float64
}

// curves returns what was accepted and delivered in a second.
func (h *history) curves(now time.Time) []curve {
	h.mu.Lock()
	defer h.mu.Unlock()
	return []curve{
		h.curve("accepted messages", now, func(s sample) int64 { return s.accepted }),
		h.curve("delivered copies", now, func(s sample) int64 { return s.delivered }),
	}
}

func (h *history) curve(name string, now time.Time, of func(sample) int64) curve {
	c := curve{Name: name}
	rates := make([]float64, len(h.samples))
	for i := 1; i < len(h.samples); i++ {
		rates[i] = float64(of(h.samples[i])-of(h.samples[i-1])) / h.samples[i].at.Sub(h.samples[i-1].at).Seconds()
		c.Most, c.Now = max(c.Most, rates[i]), rates[i]
	}
	var points strings.Builder
	for i := 1; i < len(h.samples); i++ {
		x := hour - now.Sub(h.samples[i].at).Seconds()/sampleEvery.Seconds()
		if x >= 0 && c.Most > 0 {
			fmt.Fprintf(&points, "%.0f,%.1f ", x, curveHeight-1-(curveHeight-2)*rates[i]/c.Most)
		}
	}
	c.Points = points.String()
	return c
}

// The columns of a picture of an explanation: labels, the line of time, and times as text.
const (
	lineFrom, lineTo = 150, 650
	rowHeight        = 24
)

// picture shows the facts of an explanation on a line of time.
type picture struct {
	Height, Sent int
	Rows         []row
}

// horizon is until when a user is active.
const horizon = "horizon"

// row is one fact: spans or a moment.
type row struct {
	Label, Text string
	Y           int
	Bars        []bar
	Dot         int // 0 if there is none
}

type bar struct{ X, W int }

// pictureOf draws an explanation. The line of time begins with the earliest fact and ends with the latest; a
// horizon beyond them is at its end.
func pictureOf(e client.Explanation) picture {
	type fact struct {
		label string
		spans []client.Span
		at    client.Time
	}
	facts := []fact{{label: "follows " + string(e.From), spans: e.Spans}}
	for _, s := range e.Subscriptions {
		facts = append(facts, fact{label: "topic " + string(s.Topic), spans: s.Spans})
	}
	if e.Gap != nil {
		facts = append(facts, fact{label: "gap", spans: []client.Span{{Since: e.Gap.After, Until: e.Gap.Before}}})
	}
	facts = append(facts, fact{label: "sent", at: e.Sent}, fact{label: "stored", at: e.StoredAt}, fact{label: "last viewed", at: e.LastViewed},
		fact{label: horizon, at: e.Horizon})
	var first, last time.Time
	note := func(t client.Time) {
		if t.IsZero() {
			return
		}
		if first.IsZero() || t.Before(first) {
			first = t.Time
		}
		if t.After(last) {
			last = t.Time
		}
	}
	for _, f := range facts {
		if f.label != horizon { // it is in the future of active users
			note(f.at)
		}
		for _, s := range f.spans {
			note(s.Since)
			note(s.Until)
		}
	}
	x := func(t time.Time) int {
		part := t.Sub(first).Seconds() / max(last.Sub(first).Seconds(), 1)
		return lineFrom + int((lineTo-lineFrom)*min(max(part, 0), 1))
	}
	var p picture
	for _, f := range facts {
		r := row{Label: f.label, Y: p.Height}
		for _, s := range f.spans {
			to, text := lineTo, "since "+when(s.Since)
			if !s.Until.IsZero() {
				to, text = x(s.Until.Time), "until "+when(s.Until)
			}
			from := lineFrom
			if !s.Since.IsZero() {
				from = x(s.Since.Time)
			}
			r.Bars, r.Text = append(r.Bars, bar{from, max(to-from, 2)}), text
		}
		if !f.at.IsZero() {
			r.Dot, r.Text = x(f.at.Time), when(f.at)
		}
		if r.Text != "" {
			p.Rows, p.Height = append(p.Rows, r), p.Height+rowHeight
		}
	}
	if !e.Sent.IsZero() {
		p.Sent = x(e.Sent.Time)
	}
	return p
}

// step is one stage of a message on its way to a user.
type step struct {
	Name string
	Done bool
}

func stepsOf(e client.Explanation) []step {
	return []step{
		{"sent", !e.Sent.IsZero()},
		{"stored", !e.StoredAt.IsZero()},
		{"planned", e.Fanout != nil && e.Fanout.Planned},
		{"passed", e.Fanout != nil && e.Fanout.Passed},
		{"delivered", e.Entry != nil && !e.Entry.Deleted},
		{"read", e.Read != nil && *e.Read},
	}
}
