package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/fanmail/fanmail/internal/jsonfields"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// pairHeader is a first line that names the columns of edges.
const pairHeader = "follower\tfollowee"

// parsePair parses an edge: a follower, a tab, a followee.
func parsePair(text []byte) (follow.Pair, error) {
	columns := strings.Split(string(text), "\t")
	if len(columns) != 2 {
		return follow.Pair{}, fmt.Errorf("has %s: expected follower, tab, followee", plural(len(columns), "column", "columns"))
	}
	followee := message.UserID(columns[1])
	pair := follow.Pair{Follower: message.UserID(columns[0]), Followee: followee.Source()}
	if err := followee.Validate("followee"); err != nil {
		return pair, err
	}
	return pair, pair.Validate()
}

// parseSeen parses the time at which a user was last seen.
func parseSeen(text []byte) (client.Seen, error) {
	var record struct {
		User       message.UserID `json:"user"`
		LastViewed string         `json:"last_viewed"`
	}
	if err := decode(text, &record); err != nil {
		return client.Seen{}, err
	}
	if err := record.User.Validate("user"); err != nil {
		return client.Seen{}, err
	}
	at, err := message.ParseTime(record.LastViewed)
	if err != nil {
		return client.Seen{}, fmt.Errorf("last_viewed %q %w", record.LastViewed, err)
	}
	return client.Seen{User: record.User, LastViewed: at}, nil
}

// parseIdentityLine parses a line of the batch. Its errors do not repeat the value.
func parseIdentityLine(text []byte) (client.IdentityLine, error) {
	var l client.IdentityLine
	if err := decode(text, &l); err != nil {
		return l, err
	}
	switch {
	case l.Kind == "":
		return l, errors.New("kind is empty: give one such as email")
	case l.Value == "":
		return l, errors.New("value is empty")
	}
	return l, l.User.Validate("user")
}

func parseTopicLine(text []byte) (message.Topic, error) {
	var l client.Topic
	if err := decode(text, &l); err != nil {
		return "", err
	}
	return l.Topic, l.Topic.Validate("topic")
}

func parseSubscription(text []byte) (client.Subscription, error) {
	var l client.Subscription
	if err := decode(text, &l); err != nil {
		return l, err
	}
	if err := l.User.Validate("user"); err != nil {
		return l, err
	}
	return l, l.Topic.Validate("topic")
}

// parseDraft returns a parser of messages within the limits.
func parseDraft(limits message.Limits) parser[message.Draft] {
	return func(text []byte) (message.Draft, error) {
		var wire client.Draft
		if err := decode(text, &wire); err != nil {
			return message.Draft{}, err
		}
		draft := wire.Draft()
		_, err := message.New(message.ID{}, draft, limits)
		return draft, err
	}
}

// decode decodes one JSON object. All its fields must be fields of value, with exactly their names, and each at most once.
func decode(text []byte, value any) error {
	if !utf8.Valid(text) {
		return errors.New("is not valid UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(value); err != nil {
		return explain(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("has more than one JSON object: expected one per line")
	}
	if reflect.TypeOf(value).Elem().Kind() != reflect.Struct {
		return nil
	}
	return jsonfields.Check(text, value)
}

// explain turns an error of the JSON decoder, which names Go types, into an error in terms of JSON.
func explain(err error) error {
	if wrongType, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		expected := expectedJSON(wrongType.Type)
		if wrongType.Field == "" {
			return fmt.Errorf("is not %s but a JSON %s", expected, wrongType.Value)
		}
		return fmt.Errorf("%s: expected %s, got %s", wrongType.Field, expected, wrongType.Value)
	}
	if invalid, ok := errors.AsType[*message.InvalidError](err); ok {
		return invalid
	}
	if field, found := strings.CutPrefix(err.Error(), "json: unknown field "); found {
		return fmt.Errorf("has the unknown field %s", field)
	}
	return fmt.Errorf("is not JSON: %w", err)
}

func expectedJSON(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "an array"
	default:
		return "an object"
	}
}
