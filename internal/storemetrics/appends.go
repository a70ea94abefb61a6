package storemetrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/fanmail/fanmail/internal/meter"
	"github.com/fanmail/fanmail/pkg/bucket"
)

// The steps of the append protocol, in the order in which an Appender tries them: a guarded push onto the last known head, a push
// after a look at the inbox, and a push that opens the next bucket.
const (
	stepGuarded = iota
	stepLooked
	stepOpening
	steps
)

var stepNames = [steps]string{"guarded", "looked", "opening"}

// appends counts the steps of the append protocol by their outcome.
type appends struct {
	applied, refused [steps]prometheus.Counter
	entries          *meter.Sizes
}

func newAppends(registerer prometheus.Registerer) appends {
	pushes := promauto.With(registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "fanmail_pushes_total", Help: "Pushes of entries onto a bucket, by the step of the append protocol and the outcome.",
	}, []string{"step", "outcome"})
	a := appends{entries: meter.NewSizes(registerer, "fanmail_push_entries", "Entries in one push to one inbox.", 1, 2, 5, 10, 20, 30, 40, 50)}
	for step, name := range stepNames {
		a.applied[step] = pushes.WithLabelValues(name, "applied")
		a.refused[step] = pushes.WithLabelValues(name, "refused")
	}
	return a
}

// Pushed counts the outcomes of pushes. outcomes[i] is the outcome of pushes[i].
func (m *Metrics) Pushed(pushes []bucket.Push, outcomes []bucket.Outcome) {
	var applied, refused [steps]int
	var entries meter.Tally
	for i := range outcomes {
		step := stepOf(&pushes[i])
		if !outcomes[i].Applied {
			refused[step]++
			continue
		}
		applied[step]++
		entries.Count(len(pushes[i].Entries))
	}
	for step := range steps {
		m.appends.applied[step].Add(float64(applied[step]))
		m.appends.refused[step].Add(float64(refused[step]))
	}
	m.appends.entries.Add(&entries)
}

func stepOf(p *bucket.Push) int {
	switch {
	case p.Guard:
		return stepGuarded
	case p.Create:
		return stepOpening
	default:
		return stepLooked
	}
}
