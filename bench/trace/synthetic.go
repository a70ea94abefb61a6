package trace

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

// Population are the parameters of a synthetic trace.
type Population struct {
	Users, Days int
	// Leave is the share of present users who leave each day, and Return the share of absent users who come back each day.
	Leave, Return float64
	// Messages is the mean number of messages that a user receives on a day. The means of users have a log-normal distribution with Spread.
	Messages, Spread float64
	// Views is the mean number of views on a day of a user who is present, with the same Spread.
	Views float64
	Seed  uint64
}

// DefaultPopulation is the population of the synthetic trace: users stay for 50 days on average, and stay away for 100.
func DefaultPopulation() Population {
	return Population{Users: 2000, Days: 365, Leave: 0.02, Return: 0.01, Messages: 5, Views: 1, Spread: 1, Seed: 1}
}

// String states the parameters.
func (p Population) String() string {
	return fmt.Sprintf("%d users, %d days, seed %d; %g%% of present users leave each day, and %g%% of absent ones return; %g messages and %g views a day, log-normal with sigma %g",
		p.Users, p.Days, p.Seed, 100*p.Leave, 100*p.Return, p.Messages, p.Views, p.Spread)
}

// Synthetic makes a trace. The same parameters make the same trace.
func Synthetic(p Population) *Trace {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	t := New()
	random := rand.New(rand.NewPCG(p.Seed, 0)) //nolint:gosec // a trace that can be made again
	some := func(mean float64, add func()) {
		for left := random.ExpFloat64(); left < mean; left += random.ExpFloat64() {
			add()
		}
	}
	for n := range p.Users {
		user := message.UserID(fmt.Sprintf("user-%07d", n))
		own := func(mean float64) float64 { return mean * math.Exp(p.Spread*random.NormFloat64()-p.Spread*p.Spread/2) }
		messages, views := own(p.Messages), own(p.Views)
		present := random.Float64() < p.Return/(p.Leave+p.Return)
		for d := range p.Days {
			if present {
				present = random.Float64() >= p.Leave
			} else {
				present = random.Float64() < p.Return
			}
			when := func() time.Time { return begin.Add(time.Duration((float64(d) + random.Float64()) * float64(day))) }
			some(messages, func() { t.Add(user, Event{At: when()}) })
			if present {
				some(views, func() { t.Add(user, Event{At: when(), View: true}) })
			}
		}
	}
	t.Sort()
	return t
}
