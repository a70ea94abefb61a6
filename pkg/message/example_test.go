package message_test

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

// A draft becomes a message: recipients are sorted, and named once.
func ExampleNew() {
	clock := func() time.Time { return time.UnixMilli(1767323045000) }
	ids := message.NewGenerator(clock, bytes.NewReader(make([]byte, 20)))
	id, err := ids.Next()
	if err != nil {
		fmt.Println(err)
	}
	m, err := message.New(id, message.Draft{From: "ann", To: []message.UserID{"cid", "bob", "cid"}, Body: "hello"}, message.DefaultLimits())
	fmt.Println(m.ID, m.Sent(), m.To, err)

	_, err = message.New(id, message.Draft{From: "ann", To: []message.UserID{"bob", "a/b"}, Body: "hello"}, message.DefaultLimits())
	var invalid *message.InvalidError
	fmt.Println(errors.As(err, &invalid), invalid.Field, "|", err)
	// Output:
	// 019b7ca9-8c88-7000-8000-000000000000 2026-01-02 03:04:05 +0000 UTC [bob cid] <nil>
	// true to[1] | to[1] contains '/', which a user id may not
}

// A page of messages sent from some time on begins at the least id of that time.
func ExampleMinID() {
	from := message.MinID(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	id, err := message.ParseID("019b7ca9-8c88-7123-8000-000000000000")
	fmt.Println(id.Less(from), id.Time(), err)
	// Output: false 2026-01-02 03:04:05 +0000 UTC <nil>
}

// A range that excludes its ends, and is to hold what was sent from some time on, begins at the last id before.
func ExampleLastBefore() {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := message.Range{From: "ann", After: message.LastBefore(since), Before: message.MaxID}
	id, err := message.ParseID("019b7ca9-8c88-7000-8000-000000000000")
	fmt.Println(r.After.Less(id), id.Time().Equal(since), err)
	// Output: true true <nil>
}
