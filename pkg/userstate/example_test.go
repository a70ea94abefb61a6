package userstate_test

import (
	"fmt"
	"time"

	"github.com/fanmail/fanmail/pkg/userstate"
)

// Whether a message is copied depends on when it was sent, not on when the copying happens.
func ExampleState_Deliver() {
	looked := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ann := userstate.State{User: "ann", LastViewed: looked, Horizon: looked.AddDate(0, 0, 30)}
	fmt.Println(ann.Deliver(looked.AddDate(0, 0, 30)))
	fmt.Println(ann.Deliver(looked.AddDate(0, 0, 31)))
	// Output:
	// true
	// false
}

// A user comes back after a long time. What was sent since their horizon is left to the rehydration that their arrival makes
// due; when that is settled, fan-out delivers again.
func ExampleRules_Arrive() {
	rules := userstate.DefaultRules()
	looked := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	ann := userstate.State{User: "ann", LastViewed: looked, Horizon: looked.AddDate(0, 0, 30)}

	ann = rules.Arrive(ann, now, now, userstate.Lease{Token: "t", Until: now.Add(time.Minute), Since: now})
	fmt.Println(ann.Mark.From.Format(time.DateOnly), ann.Deliver(now))

	ann, bounded := ann.Bound("t", &userstate.Gap{After: ann.Mark.From, Before: now.AddDate(0, -1, 0), Messages: 1200})
	ann, settled := ann.Settle("t", 1000)
	fmt.Println(bounded, settled, ann.Deliver(now), ann.Deliver(now.AddDate(0, -2, 0)))

	ann, finished := ann.Finish("t", 3, nil)
	_, again := ann.Finish("t", 3, nil)
	fmt.Println(finished, again, ann.Recovered)
	// Output:
	// 2026-01-31 false
	// true true true false
	// true false 1003
}
