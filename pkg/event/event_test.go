package event_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

var ref = message.Ref{From: "ann", ID: messagetest.ID(7)}

func task(lane event.Lane) event.Task {
	return event.Task{Version: event.Version, ID: ref.ID, From: ref.From, Lane: lane, Partition: 11}
}

// goldens are encoded events. Programs of other versions read them, so an existing file is never edited.
var goldens = []struct {
	file  string
	event interface{ Encode() ([]byte, error) }
	back  func([]byte) (any, error)
}{
	{"published.golden.json", event.NewPublished(ref), func(b []byte) (any, error) { return event.DecodePublished(b) }},
	{"task-medium.golden.json", task(event.Medium), func(b []byte) (any, error) { return event.DecodeTask(b) }},
	{"task-bulk.golden.json", task(event.Bulk), func(b []byte) (any, error) { return event.DecodeTask(b) }},
	{"login.golden.json", event.Login{User: "名前"}, func(b []byte) (any, error) { return event.DecodeLogin(b) }},
	{"rehydrated.golden.json", event.NewRehydrated("ann", 42), func(b []byte) (any, error) { return event.DecodeRehydrated(b) }},
	{"dead-letter.golden.json", event.DeadLetter{
		Version: event.Version, Reason: "malformed", Error: "malformed event: there is no id", Attempts: 3,
		Subject: "fanmail.v1.fanout.bulk.11", Payload: []byte("{\"v\":1}\xff"),
	}, func(b []byte) (any, error) {
		var d event.DeadLetter
		err := json.Unmarshal(b, &d)
		return d, err
	}},
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for _, g := range goldens {
		t.Run(g.file, func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(filepath.Join("testdata", g.file))
			require.NoError(t, err)
			want = []byte(strings.TrimSuffix(string(want), "\n"))
			data, err := g.event.Encode()
			require.NoError(t, err)
			require.Equal(t, string(want), string(data))
			back, err := g.back(want)
			require.NoError(t, err)
			require.Equal(t, g.event, back)
		})
	}
}

func TestRefs(t *testing.T) {
	t.Parallel()
	require.Equal(t, ref, event.NewPublished(ref).Ref())
	require.Equal(t, ref, task(event.Bulk).Ref())
	require.Equal(t, []event.Lane{event.Medium, event.Bulk}, event.Lanes())
}

// field returns an encoded event with one field replaced, or removed if the value is empty.
func field(t *testing.T, encoded interface{ Encode() ([]byte, error) }, name, value string) []byte {
	t.Helper()
	data, err := encoded.Encode()
	require.NoError(t, err)
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(data, &fields))
	fields[name] = json.RawMessage(value)
	if value == "" {
		delete(fields, name)
	}
	data, err = json.Marshal(fields)
	require.NoError(t, err)
	return data
}

func TestDecodePassesOverUnknownFields(t *testing.T) {
	t.Parallel()
	published, err := event.DecodePublished(field(t, event.NewPublished(ref), "later", `{"x":1}`))
	require.NoError(t, err)
	require.Equal(t, event.NewPublished(ref), published)
	got, err := event.DecodeTask(field(t, task(event.Bulk), "later", `[1]`))
	require.NoError(t, err)
	require.Equal(t, task(event.Bulk), got)
	login, err := event.DecodeLogin(field(t, event.Login{User: "ann"}, "later", `null`))
	require.NoError(t, err)
	require.Equal(t, event.Login{User: "ann"}, login)
	rehydrated, err := event.DecodeRehydrated(field(t, event.NewRehydrated("ann", 1), "later", `"x"`))
	require.NoError(t, err)
	require.Equal(t, event.NewRehydrated("ann", 1), rehydrated)
}

func TestDecodeLoginAcceptsAVersion(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{`{"user":"ann"}`, `{"v":1,"user":"ann"}`, " {\n\"user\": \"\\u0061nn\"}\n"} {
		got, err := event.DecodeLogin([]byte(payload))
		require.NoError(t, err, payload)
		require.Equal(t, event.Login{User: "ann"}, got)
	}
}

// broken are field values that make any event malformed.
var broken = []struct{ name, field, value string }{
	{"no version", "v", ""},
	{"version 0", "v", "0"},
	{"a later version", "v", "2"},
	{"a version that is not a number", "v", `"1"`},
	{"no id", "id", ""},
	{"the zero id", "id", `"00000000-0000-0000-0000-000000000000"`},
	{"an id that is not a UUID", "id", `"x"`},
	{"an id of version 4", "id", `"017f22e2-79b0-4cc3-98c4-dc0c0c07398f"`},
	{"no author", "from", ""},
	{"an author that is not a user id", "from", `"a b"`},
}

func TestDecodePublishedRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range broken {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := event.DecodePublished(field(t, event.NewPublished(ref), test.field, test.value))
			require.ErrorIs(t, err, event.ErrMalformed)
			require.Zero(t, got)
		})
	}
}

func TestDecodeTaskRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range append(broken, []struct{ name, field, value string }{
		{"no lane", "lane", ""},
		{"an unknown lane", "lane", `"fast"`},
		{"a partition below zero", "partition", "-1"},
		{"a partition that is not a number", "partition", "1.5"},
		{"the lane without tasks", "lane", `"direct"`},
	}...) {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := event.DecodeTask(field(t, task(event.Bulk), test.field, test.value))
			require.ErrorIs(t, err, event.ErrMalformed)
			require.Zero(t, got)
		})
	}
}

// brokenUsers are field values that make an event about a user malformed.
var brokenUsers = []struct{ name, field, value string }{
	{"version 0", "v", "0"},
	{"a later version", "v", "2"},
	{"a version that is not a number", "v", `"1"`},
	{"no user", "user", ""},
	{"user null", "user", "null"},
	{"an empty user", "user", `""`},
	{"a user that is not a string", "user", "7"},
	{"a user with white space", "user", `"a b"`},
	{"a user with a slash", "user", `"a/b"`},
	{"a user with a control character", "user", `"a\u0000"`},
	{"a user of dots", "user", `".."`},
	{"a user that is too long", "user", `"` + strings.Repeat("a", message.MaxUserIDBytes+1) + `"`},
	{"a user with half a character", "user", `"a\ud800"`},
}

func TestDecodeLoginRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range brokenUsers {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := event.DecodeLogin(field(t, event.Login{User: "ann"}, test.field, test.value))
			require.ErrorIs(t, err, event.ErrMalformed)
			require.Zero(t, got)
		})
	}
	t.Run("a user that is not UTF-8", func(t *testing.T) {
		t.Parallel()
		got, err := event.DecodeLogin([]byte("{\"user\":\"a\xff\"}"))
		require.ErrorIs(t, err, event.ErrMalformed)
		require.Zero(t, got)
	})
}

func TestDecodeRehydratedRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range append(brokenUsers, []struct{ name, field, value string }{
		{"no version", "v", ""},
		{"a count below zero", "recovered", "-1"},
		{"a count that is not a number", "recovered", `"1"`},
	}...) {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := event.DecodeRehydrated(field(t, event.NewRehydrated("ann", 1), test.field, test.value))
			require.ErrorIs(t, err, event.ErrMalformed)
			require.Zero(t, got)
		})
	}
}

func TestDecodeRefusesWhatIsNoObject(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"", "null", "1", "[]", `"x"`, "{", "{}{}", "\xff"} {
		_, err := event.DecodePublished([]byte(data))
		require.ErrorIs(t, err, event.ErrMalformed, "%q", data)
		_, err = event.DecodeTask([]byte(data))
		require.ErrorIs(t, err, event.ErrMalformed, "%q", data)
		_, err = event.DecodeLogin([]byte(data))
		require.ErrorIs(t, err, event.ErrMalformed, "%q", data)
		_, err = event.DecodeRehydrated([]byte(data))
		require.ErrorIs(t, err, event.ErrMalformed, "%q", data)
	}
}

func FuzzDecodePublished(f *testing.F) {
	for _, g := range goldens {
		data, err := g.event.Encode()
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := event.DecodePublished(data)
		if err != nil {
			require.ErrorIs(t, err, event.ErrMalformed)
			return
		}
		encoded, err := p.Encode()
		require.NoError(t, err)
		again, err := event.DecodePublished(encoded)
		require.NoError(t, err)
		require.Equal(t, p, again)
	})
}

func FuzzDecodeLogin(f *testing.F) {
	for _, g := range goldens {
		data, err := g.event.Encode()
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		login, err := event.DecodeLogin(data)
		if err != nil {
			require.ErrorIs(t, err, event.ErrMalformed)
			return
		}
		require.NoError(t, login.User.Validate("user"))
		encoded, err := login.Encode()
		require.NoError(t, err)
		again, err := event.DecodeLogin(encoded)
		require.NoError(t, err)
		require.Equal(t, login, again)
	})
}

func FuzzDecodeTask(f *testing.F) {
	for _, g := range goldens {
		data, err := g.event.Encode()
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		task, err := event.DecodeTask(data)
		if err != nil {
			require.ErrorIs(t, err, event.ErrMalformed)
			return
		}
		encoded, err := task.Encode()
		require.NoError(t, err)
		again, err := event.DecodeTask(encoded)
		require.NoError(t, err)
		require.Equal(t, task, again)
	})
}

func TestShorten(t *testing.T) {
	t.Parallel()
	encode := func(e interface{ Encode() ([]byte, error) }) []byte {
		data, err := e.Encode()
		require.NoError(t, err)
		return data
	}
	for name, test := range map[string]struct{ payload, want []byte }{
		"a bulk task":       {encode(task(event.Bulk)), encode(task(event.Bulk))},
		"a newer task":      {[]byte(`{"v":2,"id":"` + ref.ID.String() + `","from":"` + string(ref.From) + `","lane":"vast","partition":11,"to":{}}`), encode(task(event.Medium))},
		"a published event": {append(encode(event.NewPublished(ref)), ' '), encode(event.NewPublished(ref))},
		"a login":           {[]byte(`{"user":"ann","from":"the shop"}`), []byte(`{"user":"ann"}`)},
		"text":              {[]byte("hello"), []byte("hello")},
		"no JSON":           {bytes.Repeat([]byte("x"), 5000), bytes.Repeat([]byte("x"), 1024)},
		"a bad partition":   {[]byte(`{"id":"` + ref.ID.String() + `","from":"ann","lane":"bulk","partition":-1}`), []byte(`{"id":"` + ref.ID.String() + `","from":"ann","lane":"bulk","partition":-1}`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := event.DeadLetter{Error: "why", Payload: test.payload}.Shorten()
			require.Equal(t, string(test.want), string(got.Payload))
			require.Equal(t, "why", got.Error)
			if len(test.want) == len(test.payload) {
				require.Zero(t, got.Cut)
			} else {
				require.Equal(t, len(test.payload), got.Cut)
			}
		})
	}
}
