package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/fanmail/fanmail/pkg/message"
)

// Draft is a message.Draft on the wire.
type Draft struct {
	From        message.UserID   `json:"from"`
	To          Recipients       `json:"to,omitzero"`
	Audience    message.Audience `json:"audience,omitempty"`
	Topics      []message.Topic  `json:"topics,omitempty"`
	Body        string           `json:"body"`
	ContentType string           `json:"content_type,omitempty"`
	Attrs       json.RawMessage  `json:"attrs,omitempty"`
}

// NewDraft returns a draft as it is sent.
func NewDraft(d message.Draft) Draft {
	return Draft{
		From: d.From, To: Recipients{Users: d.To, Identities: d.ToIdentities}, Audience: d.Audience, Topics: d.Topics,
		Body: d.Body, ContentType: d.ContentType, Attrs: d.Attrs,
	}
}

// Draft returns the draft that was sent.
func (d Draft) Draft() message.Draft {
	return message.Draft{
		From: d.From, To: d.To.Users, ToIdentities: d.To.Identities, Audience: d.Audience, Topics: d.Topics,
		Body: d.Body, ContentType: d.ContentType, Attrs: d.Attrs,
	}
}

// Recipients are the recipients in a draft. On the wire they are one list of user ids and of identities, which are objects such as
// {"email":"joe@example.com"}.
//
//nolint:recvcheck // a value is written, and a pointer is read into
type Recipients struct {
	Users      []message.UserID
	Identities []message.Identity
	// places has the place in the list of each user, and then of each identity. It is nil if all users come first.
	places []int
}

// IsZero reports whether there are no recipients.
func (r Recipients) IsZero() bool { return len(r.Users) == 0 && len(r.Identities) == 0 }

// Place returns the place in the list of recipient i, if the users are counted first and then the identities.
func (r Recipients) Place(i int) int {
	if i < 0 || i >= len(r.places) {
		return i
	}
	return r.places[i]
}

// MarshalJSON writes the users, and then the identities.
func (r Recipients) MarshalJSON() ([]byte, error) {
	list := make([]any, 0, len(r.Users)+len(r.Identities))
	for _, user := range r.Users {
		list = append(list, user)
	}
	for _, id := range r.Identities {
		list = append(list, map[string]string{id.Kind: id.Value})
	}
	return encode(list)
}

// UnmarshalJSON reads the list. It returns a *message.InvalidError for an object that is not one identity.
func (r *Recipients) UnmarshalJSON(text []byte) error {
	*r = Recipients{}
	err := json.Unmarshal(text, &r.Users)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok || text[0] != '[' || wrong.Value != "object" {
		return err
	}
	return r.readMixed(text)
}

// kinds reports whether all names can be kinds of identities. The server knows which there are.
func kinds(named map[string]string) bool {
	for kind := range named {
		if kind == "" || strings.Trim(kind, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
			return false
		}
	}
	return true
}

// fields returns how many fields a JSON object with texts as values has, also those that are there twice.
func fields(object []byte) (n int) {
	decoder := json.NewDecoder(bytes.NewReader(object))
	for {
		if _, err := decoder.Token(); err != nil {
			return (n - 1) / 2 // without the braces, a key and a value for each
		}
		n++
	}
}

// readMixed reads a list that has objects.
func (r *Recipients) readMixed(text []byte) error {
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	*r = Recipients{}
	var places []int // of the identities
	for i, element := range list {
		if element[0] != '{' {
			var user message.UserID
			if err := json.Unmarshal(element, &user); err != nil {
				return err
			}
			r.Users, r.places = append(r.Users, user), append(r.places, i)
			continue
		}
		var named map[string]string
		if json.Unmarshal(element, &named) != nil || len(named) != 1 || fields(element) != 1 || !kinds(named) {
			return &message.InvalidError{
				Field: "to[" + strconv.Itoa(i) + "]", Reason: `is an object that is not one identity: give one such as {"email":"joe@example.com"}`,
			}
		}
		for kind, value := range named {
			r.Identities, places = append(r.Identities, message.Identity{Kind: kind, Value: value}), append(places, i)
		}
	}
	r.places = append(r.places, places...)
	return nil
}
