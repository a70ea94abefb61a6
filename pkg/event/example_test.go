package event_test

import (
	"errors"
	"fmt"

	"github.com/fanmail/fanmail/pkg/event"
)

// Events are JSON objects with a format version. An event with another version is refused.
func ExampleDecodePublished() {
	data, err := event.NewPublished(ref).Encode()
	fmt.Println(string(data), err)
	_, err = event.DecodePublished([]byte(`{"v":9}`))
	fmt.Println(errors.Is(err, event.ErrMalformed), err)
	// Output:
	// {"v":1,"id":"019b7ca9-8c8f-7000-8000-000000000007","from":"ann"} <nil>
	// true malformed event: sent by a newer program: format version is 9, this program reads 1
}

// A login service sends only the user id. The version is optional.
func ExampleDecodeLogin() {
	fmt.Println(event.DecodeLogin([]byte(`{"user":"ann"}`)))
	fmt.Println(event.DecodeLogin([]byte(`{"v":1,"user":"ann"}`)))
	fmt.Println(event.DecodeLogin([]byte(`{"user":"a b"}`)))
	// Output:
	// {ann} <nil>
	// {ann} <nil>
	// {} malformed event: user contains white space (U+0020)
}
