package message

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"mime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Audience says who a message is for besides the users it names.
type Audience string

const (
	// AudienceListed is a message for the users in To alone.
	AudienceListed Audience = ""
	// AudienceFollowers is a message to every user who follows its author when it is sent.
	AudienceFollowers Audience = "followers"
)

// Message is a published message. It is immutable: after New has returned it, do not change it or the data that its fields
// point to.
type Message struct {
	ID   ID
	From UserID
	// To names recipients, in ascending order, each once. It may be empty if Audience is not.
	To       []UserID
	Audience Audience
	// Blocked is how many of the users whom the request named are not in To, because they blocked the author.
	Blocked int
	// Topics are those that the message is sent to, in ascending order, each once.
	Topics []Topic
	Body   string
	// ContentType is the media type of Body, or empty.
	ContentType string
	// Attrs is a JSON object without superfluous white space, or nil. Fanmail looks only at its declared attributes: see package attribute.
	Attrs json.RawMessage
}

// Sent returns when the message was sent: the time in its id, in UTC, to the millisecond.
func (m Message) Sent() time.Time { return m.ID.Time() }

// Names reports whether the message names user in To.
func (m Message) Names(user UserID) bool {
	_, found := slices.BinarySearch(m.To, user)
	return found
}

// ToFollowers reports whether the message goes to its author's followers.
func (m Message) ToFollowers() bool { return m.Audience == AudienceFollowers }

// Ref is what finds a message in a sharded store: its author and its id.
type Ref struct {
	From UserID
	ID   ID
}

// Ref returns the message's Ref.
func (m Message) Ref() Ref { return Ref{From: m.From, ID: m.ID} }

// Limits bounds the size of a message.
type Limits struct {
	// BodyBytes is the greatest length of a body, in bytes of UTF-8.
	BodyBytes int
	// AttrsBytes is the greatest length of the attributes as JSON without white space, in bytes.
	AttrsBytes int
	// Recipients is the greatest number of ids in a Draft's To, duplicates included.
	Recipients int
}

// DefaultLimits keeps an entry under 128 KiB, so that a bucket of 50 fits into a MongoDB document of 16 MiB.
func DefaultLimits() Limits {
	return Limits{BodyBytes: 64 << 10, AttrsBytes: 16 << 10, Recipients: MaxRecipients}
}

// maxContentTypeBytes is what common HTTP servers allow a short header value.
const maxContentTypeBytes = 255

// Draft is a message that a caller wants to publish. It has no id yet.
type Draft struct {
	From UserID   `json:"from"`
	To   []UserID `json:"to,omitempty"`
	// ToIdentities names recipients by their identities, as the caller writes them. On the wire they are elements of to: see package client.
	ToIdentities []Identity      `json:"-"`
	Audience     Audience        `json:"audience,omitempty"`
	Topics       []Topic         `json:"topics,omitempty"`
	Body         string          `json:"body"`
	ContentType  string          `json:"content_type,omitempty"`
	Attrs        json.RawMessage `json:"attrs,omitempty"`
}

// New makes a message of a draft: it checks the draft against the rules and limits, sorts recipients and topics and
// removes those named twice, and compacts the attributes. It does not know which topics exist. Every error is an *InvalidError. The message
// shares no memory with the draft but strings.
func New(id ID, d Draft, l Limits) (Message, error) {
	if err := d.From.Validate("from"); err != nil {
		return Message{}, err
	}
	to, err := recipients(d, l)
	if err != nil {
		return Message{}, err
	}
	topics, err := topics(d)
	if err != nil {
		return Message{}, err
	}
	attrs, err := compactAttrs(d.Attrs, l)
	if err != nil {
		return Message{}, err
	}
	switch {
	case len(d.Body) > l.BodyBytes:
		return Message{}, invalid("body", "has %d bytes: at most %d are allowed", len(d.Body), l.BodyBytes)
	case d.Body == "" && attrs == nil:
		return Message{}, invalid("body", "is empty: give a body, or attrs")
	case len(d.ContentType) > maxContentTypeBytes:
		return Message{}, invalid("content_type", "has %d bytes: at most %d are allowed", len(d.ContentType), maxContentTypeBytes)
	}
	if d.ContentType != "" {
		// A type without a subtype is let through by the parser, for the headers where it stands alone.
		if media, _, err := mime.ParseMediaType(d.ContentType); err != nil || !strings.Contains(media, "/") {
			return Message{}, invalid("content_type", "is not a media type such as text/plain")
		}
	}
	return Message{
		ID: id, From: d.From, To: to, Audience: d.Audience, Topics: topics,
		Body: d.Body, ContentType: d.ContentType, Attrs: attrs,
	}, nil
}

func recipients(d Draft, l Limits) ([]UserID, error) {
	switch {
	case d.Audience != AudienceListed && d.Audience != AudienceFollowers:
		return nil, invalid("audience", "is %q: the only audience there is, is %q", string(d.Audience), string(AudienceFollowers))
	case len(d.To)+len(d.ToIdentities)+len(d.Topics) == 0 && d.Audience == AudienceListed:
		return nil, invalid("to", "is empty: name recipients or topics, or set audience to %q", string(AudienceFollowers))
	case len(d.To)+len(d.ToIdentities) > l.Recipients:
		return nil, invalid("to", "has %d recipients: at most %d are allowed", len(d.To)+len(d.ToIdentities), l.Recipients)
	}
	for i, user := range d.To {
		if err := user.Validate("to[" + strconv.Itoa(i) + "]"); err != nil {
			return nil, err
		}
	}
	to := slices.Clone(d.To)
	slices.SortFunc(to, cmp.Compare)
	return slices.Compact(to), nil
}

func compactAttrs(attrs json.RawMessage, l Limits) (json.RawMessage, error) {
	if len(attrs) == 0 || bytes.Equal(attrs, []byte("null")) {
		return nil, nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, attrs); err != nil {
		return nil, invalid("attrs", "is not JSON: %v", err)
	}
	switch {
	case compact.Bytes()[0] != '{':
		return nil, invalid("attrs", "is not a JSON object")
	case compact.Len() > l.AttrsBytes:
		return nil, invalid("attrs", "has %d bytes as JSON: at most %d are allowed", compact.Len(), l.AttrsBytes)
	}
	return compact.Bytes(), nil
}

// Digest is a hash of what a message says and to whom, its id left out.
type Digest [sha256.Size]byte

// Digest returns the message's digest: SHA-256 over its fields, each preceded by its length. If it has topics, each list is preceded by
// its length, too: otherwise recipients and topics could change places. As no user id begins with a zero byte, no message without topics has
// the same digest.
func (m Message) Digest() Digest { return m.DigestTo(nil) }

// DigestTo returns the digest of a request for the message with further recipients, of which only the canonical texts of their identities are
// known. Order and repetition do not matter. Their number is a list of its own, after the topics, which are counted even if there are none.
func (m Message) DigestTo(identities []string) Digest {
	identities = slices.Clone(identities)
	slices.Sort(identities)
	identities = slices.Compact(identities)
	lists := len(m.Topics)+len(identities) > 0
	h := sha256.New()
	length := func(n int) {
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], uint64(n)) //nolint:gosec // a length is not negative
		h.Write(b[:])
	}
	field := func(s string) {
		length(len(s))
		h.Write([]byte(s))
	}
	field(string(m.From))
	field(string(m.Audience))
	field(m.Body)
	field(m.ContentType)
	field(string(m.Attrs))
	if lists {
		length(len(m.To))
	}
	for _, user := range m.To {
		field(string(user))
	}
	if lists {
		length(len(m.Topics))
	}
	for _, t := range m.Topics {
		field(string(t))
	}
	if len(identities) > 0 {
		length(len(identities))
	}
	for _, text := range identities {
		field(text)
	}
	return Digest(h.Sum(nil))
}
