package userstate_test

import (
	"fmt"
	"time"

	"github.com/fanmail/fanmail/pkg/userstate"
)

// Whether a message is copied depends on when it was sent, not on when the copying happens.
func ExamplePolicy_Deliver() {
	policy := userstate.DefaultPolicy()
	looked := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ann := userstate.State{User: "ann", LastViewed: looked}
	fmt.Println(policy.Deliver(ann, looked.AddDate(0, 0, 30)))
	fmt.Println(policy.Deliver(ann, looked.AddDate(0, 0, 31)))
	// Output:
	// true
	// false
}
