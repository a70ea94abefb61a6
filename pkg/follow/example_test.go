package follow_test

import (
	"fmt"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/follow"
)

// An edge remembers when it held, so whether a message was for a follower can be told at any later time.
func ExampleFor() {
	edge := follow.Edge{Follower: "ann", Followee: "bob"}
	edge, _ = edge.Follow(messagetest.ID(10).Time())
	edge, _ = edge.Unfollow(messagetest.ID(20).Time())
	for _, n := range []int{5, 15, 25} {
		fmt.Println(n, follow.For(messagetest.Message(n, "bob"), "ann", edge))
	}
	// Output:
	// 5 false
	// 15 true
	// 25 false
}
