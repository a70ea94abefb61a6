package event_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/event"
)

// newer returns an encoded event of a future release.
func newer(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "newer", file))
	require.NoError(t, err)
	return []byte(strings.TrimSuffix(string(text), "\n"))
}

// TestNewerFields decodes events with fields that this program does not know. The known fields have their values. An encoded task has
// the unknown fields unchanged, because a continuation passes them on.
func TestNewerFields(t *testing.T) {
	t.Parallel()
	published, err := event.DecodePublished(newer(t, "published.fields.json"))
	require.NoError(t, err)
	require.Equal(t, event.NewPublished(ref), published)
	login, err := event.DecodeLogin(newer(t, "login.fields.json"))
	require.NoError(t, err)
	require.Equal(t, event.Login{User: "名前"}, login)
	rehydrated, err := event.DecodeRehydrated(newer(t, "rehydrated.fields.json"))
	require.NoError(t, err)
	require.Equal(t, event.NewRehydrated("ann", 42), rehydrated)
	views, err := event.DecodeViewed(newer(t, "viewed.fields.json"))
	require.NoError(t, err)
	require.Equal(t, viewed, views)
	letter, err := event.DecodeDeadLetter(newer(t, "dead-letter.fields.json"))
	require.NoError(t, err)
	require.Equal(t, "fanmail.v1.fanout.bulk.11", letter.Subject)

	for file, want := range map[string]event.Task{
		"task-bulk.fields.json": {
			Lane: event.Bulk, Rest: map[string]json.RawMessage{
				"budget": json.RawMessage("12345678901234567890"), "note": json.RawMessage(`"<&>"`), "zone": json.RawMessage(`{"of":["eu",null]}`),
			},
		},
		"task-express.fields.json": {
			Lane: event.Express, Recipients: task(event.Express, "bob", "名前").Recipients, Rest: map[string]json.RawMessage{"zone": json.RawMessage(`"eu"`)},
		},
	} {
		sent := newer(t, file)
		got, err := event.DecodeTask(sent)
		require.NoError(t, err)
		want.Version, want.ID, want.From, want.Partition = event.Version, ref.ID, ref.From, 11
		require.Equal(t, want, got)
		again, err := got.Encode()
		require.NoError(t, err)
		require.Equal(t, string(sent), string(again))
	}
}

// TestNewerVersion refuses events of a later version with ErrNewer, even if their fields have other types.
func TestNewerVersion(t *testing.T) {
	t.Parallel()
	for file, decode := range map[string]func([]byte) error{
		"published.version.json":   func(b []byte) error { _, err := event.DecodePublished(b); return err },
		"task.version.json":        func(b []byte) error { _, err := event.DecodeTask(b); return err },
		"login.version.json":       func(b []byte) error { _, err := event.DecodeLogin(b); return err },
		"rehydrated.version.json":  func(b []byte) error { _, err := event.DecodeRehydrated(b); return err },
		"viewed.version.json":      func(b []byte) error { _, err := event.DecodeViewed(b); return err },
		"dead-letter.version.json": func(b []byte) error { _, err := event.DecodeDeadLetter(b); return err },
	} {
		err := decode(newer(t, file))
		require.ErrorIs(t, err, event.ErrNewer, file)
		require.ErrorIs(t, err, event.ErrMalformed, "a caller that checks only ErrMalformed refuses the event too")
		require.ErrorContains(t, err, "format version is 2, this program reads 1")
	}
}

// TestOlderIsNotNewer requires that no malformed event of this or an older version is an ErrNewer.
func TestOlderIsNotNewer(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"v":0}`, `{}`, `{"v":"2"}`, `{"v":-1}`, `{"v":1,"id":7}`, `{"v":2`, `[2]`} {
		_, err := event.DecodeTask([]byte(text))
		require.ErrorIs(t, err, event.ErrMalformed, text)
		require.NotErrorIs(t, err, event.ErrNewer, text)
	}
}

// TestRestHoldsNoKnownField requires that Rest has no known field with another capitalization; encoding would write it twice.
func TestRestHoldsNoKnownField(t *testing.T) {
	t.Parallel()
	got, err := event.DecodeTask([]byte(`{"V":1,"ID":"` + ref.ID.String() + `","From":"ann","LANE":"bulk","partition":11,"later":[1, 2]}`))
	require.NoError(t, err)
	want := task(event.Bulk)
	want.Rest = map[string]json.RawMessage{"later": json.RawMessage(`[1,2]`)}
	require.Equal(t, want, got)
}
