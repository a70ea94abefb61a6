package message_test

import (
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/message"
)

func draft() message.Draft {
	return message.Draft{From: "ann", To: []message.UserID{"bob"}, Body: "hello"}
}

func TestNew(t *testing.T) {
	t.Parallel()
	d := message.Draft{
		From:        "ann",
		To:          []message.UserID{"zoe", "bob", "zoe", "ann", "Bob", "bob"},
		Audience:    message.AudienceFollowers,
		Body:        "hello",
		ContentType: "text/plain; charset=utf-8",
		Attrs:       json.RawMessage(" { \"b\" : [ 1 , 2.50 ],\n \"a\" : \"x y\" } "),
	}
	m, err := message.New(messagetest.ID(1), d, message.DefaultLimits())
	require.NoError(t, err)
	require.Equal(t, message.Message{
		ID: messagetest.ID(1), From: "ann", To: []message.UserID{"Bob", "ann", "bob", "zoe"},
		Audience: message.AudienceFollowers, Body: "hello", ContentType: "text/plain; charset=utf-8",
		Attrs: json.RawMessage(`{"b":[1,2.50],"a":"x y"}`),
	}, m)
	require.Equal(t, message.UserID("zoe"), d.To[0], "the draft is left as it is")
	require.Equal(t, messagetest.Epoch.Add(time.Millisecond), m.Sent())
	require.Equal(t, message.Ref{From: "ann", ID: messagetest.ID(1)}, m.Ref())
	require.True(t, m.ToFollowers())
	for user, named := range map[message.UserID]bool{"ann": true, "bob": true, "Bob": true, "zoe": true, "zo": false, "": false, "zzz": false} {
		require.Equal(t, named, m.Names(user), user)
	}
}

func TestNewAccepts(t *testing.T) {
	t.Parallel()
	limits := message.Limits{BodyBytes: 10, AttrsBytes: 10, Recipients: 2}
	for name, change := range map[string]func(*message.Draft){
		"a body of just the limit":         func(d *message.Draft) { d.Body = strings.Repeat("ü", 5) },
		"attrs of just the limit":          func(d *message.Draft) { d.Attrs = json.RawMessage(` {"a": "12" } `) },
		"recipients of just the limit":     func(d *message.Draft) { d.To = []message.UserID{"bob", "bob"} },
		"no body with attrs":               func(d *message.Draft) { d.Body, d.Attrs = "", json.RawMessage(`{}`) },
		"attrs that are null":              func(d *message.Draft) { d.Attrs = json.RawMessage(`null`) },
		"followers alone":                  func(d *message.Draft) { d.To, d.Audience = nil, message.AudienceFollowers },
		"a message to oneself":             func(d *message.Draft) { d.To = []message.UserID{"ann"} },
		"a user id of just the limit":      func(d *message.Draft) { d.From = message.UserID(strings.Repeat("é", 64)) },
		"a content type of just the limit": func(d *message.Draft) { d.ContentType = "text/" + strings.Repeat("a", 250) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := draft()
			change(&d)
			m, err := message.New(messagetest.ID(1), d, limits)
			require.NoError(t, err)
			require.Equal(t, d.Body, m.Body)
		})
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	limits := message.Limits{BodyBytes: 10, AttrsBytes: 10, Recipients: 2}
	for _, test := range []struct {
		name   string
		field  string
		change func(*message.Draft)
	}{
		{"no author", "from", func(d *message.Draft) { d.From = "" }},
		{"an author that is no user id", "from", func(d *message.Draft) { d.From = "a b" }},
		{"no recipients", "to", func(d *message.Draft) { d.To = nil }},
		{"too many recipients, though the same", "to", func(d *message.Draft) { d.To = []message.UserID{"bob", "bob", "bob"} }},
		{"a recipient that is no user id", "to[1]", func(d *message.Draft) { d.To = []message.UserID{"bob", "a/b"} }},
		{"an unknown audience", "audience", func(d *message.Draft) { d.Audience = "everybody" }},
		{"a body too long in bytes", "body", func(d *message.Draft) { d.Body = strings.Repeat("ü", 5) + "x" }},
		{"no body", "body", func(d *message.Draft) { d.Body = "" }},
		{"no body, and attrs that are null", "body", func(d *message.Draft) { d.Body, d.Attrs = "", json.RawMessage(`null`) }},
		{"attrs too long", "attrs", func(d *message.Draft) { d.Attrs = json.RawMessage(`{"a":12345}`) }},
		{"attrs that are no JSON", "attrs", func(d *message.Draft) { d.Attrs = json.RawMessage(`{"a":`) }},
		{"attrs that are two values", "attrs", func(d *message.Draft) { d.Attrs = json.RawMessage(`{}{}`) }},
		{"attrs that are an array", "attrs", func(d *message.Draft) { d.Attrs = json.RawMessage(`[1]`) }},
		{"attrs that are white space", "attrs", func(d *message.Draft) { d.Attrs = json.RawMessage(` `) }},
		{"attrs that are a string", "attrs", func(d *message.Draft) { d.Attrs = json.RawMessage(`"null"`) }},
		{"a content type that is none", "content_type", func(d *message.Draft) { d.ContentType = "text/plain; charset" }},
		{"a content type with a line break", "content_type", func(d *message.Draft) { d.ContentType = "text/plain\r\nX: y" }},
		{"a content type too long", "content_type", func(d *message.Draft) { d.ContentType = "text/" + strings.Repeat("a", 251) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := draft()
			test.change(&d)
			m, err := message.New(messagetest.ID(1), d, limits)
			requireInvalid(t, err, test.field)
			require.Zero(t, m)
		})
	}
}

func TestUserIDValidate(t *testing.T) {
	t.Parallel()
	for _, good := range []message.UserID{"a", "...", ".a", "ann@example.org", "名前", "a:b*c?", message.UserID(strings.Repeat("a", 128)), "a\ufe0f"} {
		require.NoError(t, good.Validate("user"), "%q", good)
	}
	for name, bad := range map[string]message.UserID{
		"empty":             "",
		"too long":          message.UserID(strings.Repeat("a", 129)),
		"too long in bytes": message.UserID(strings.Repeat("é", 65)),
		"a dot":             ".",
		"two dots":          "..",
		"a slash":           "a/b",
		"a space":           "a b",
		"a wide space":      "a\u3000b",
		"no-break space":    "a\u00a0b",
		"a tab":             "a\tb",
		"a zero byte":       "a\x00",
		"a delete":          "a\x7f",
		"a C1 control":      "a\u0085",
		"a soft hyphen":     "a\u00ad",
		"no width":          "a\u200b",
		"right to left":     "a\u202e",
		"a byte order mark": "\ufeffa",
		"a hidden tag":      "a\U000e0061",
		"a filler":          "a\u3164",
		"invalid UTF-8":     "a\xff",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireInvalid(t, bad.Validate("to[7]"), "to[7]")
		})
	}
}

func TestDigest(t *testing.T) {
	t.Parallel()
	base := message.Message{ID: messagetest.ID(1), From: "a", To: []message.UserID{"b", "c"}, Body: "d", ContentType: "e/f", Attrs: json.RawMessage(`{}`)}
	other := base
	other.ID = messagetest.ID(2)
	require.Equal(t, base.Digest(), other.Digest(), "the id is left out")
	seen := map[message.Digest]string{base.Digest(): "the message itself"}
	for name, change := range map[string]func(*message.Message){
		"another author":               func(m *message.Message) { m.From = "ab" },
		"another audience":             func(m *message.Message) { m.Audience = message.AudienceFollowers },
		"another body":                 func(m *message.Message) { m.Body = "D" },
		"another content type":         func(m *message.Message) { m.ContentType = "" },
		"other attrs":                  func(m *message.Message) { m.Attrs = nil },
		"fewer recipients":             func(m *message.Message) { m.To = m.To[:1] },
		"recipients run together":      func(m *message.Message) { m.To = []message.UserID{"bc"} },
		"content type within body":     func(m *message.Message) { m.Body, m.ContentType = "de/f", "" },
		"a recipient within the attrs": func(m *message.Message) { m.Attrs, m.To = json.RawMessage(`{}b`), m.To[1:] },
	} {
		m := base
		change(&m)
		require.NotContains(t, seen, m.Digest(), name)
		seen[m.Digest()] = name
	}
}

// Digests are stored with idempotency keys: how they are made never changes.
func TestDigestFormat(t *testing.T) {
	t.Parallel()
	m := message.Message{From: "ann", To: []message.UserID{"bob"}, Audience: message.AudienceFollowers, Body: "hello", ContentType: "text/plain", Attrs: json.RawMessage(`{"a":1}`)}
	digest := m.Digest()
	require.Equal(t, "06b46afb2b7d1d07b42f896c8f76242ebc733f3a2d96c0e5e40046ff17ff5ebe", hex.EncodeToString(digest[:]))
}

func TestTimingJudges(t *testing.T) {
	t.Parallel()
	timing := message.Timing{Slack: 2 * time.Minute, Tolerance: time.Minute}
	sent := messagetest.Epoch
	for delay, void := range map[time.Duration]bool{
		0: false, 2 * time.Minute: false, 2*time.Minute + 1: true, -time.Minute: false, -time.Minute - 1: true,
	} {
		storedAt := sent.Add(delay)
		stored := message.Stored{Message: messagetest.Message(0, "ann"), Stamp: message.Stamp{StoredAt: storedAt, Void: timing.Void(sent, storedAt)}}
		require.Equal(t, void, stored.Void, "stored %v after it was sent", delay)
		require.Equal(t, void && delay < 0, stored.FromFuture(), "stored %v after it was sent", delay)
	}
	require.True(t, timing.Void(message.MaxID.Time(), sent))
	require.True(t, timing.Void(sent, message.MaxID.Time()))
}
