package message_test

import (
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/message"
)

func TestIdentitiesHideTheirValue(t *testing.T) {
	t.Parallel()
	id := message.Identity{Kind: "email", Value: "joe@example.com"}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		require.Equal(t, "an identity of the kind email", fmt.Sprintf(format, id))
		require.NotContains(t, fmt.Sprintf(format, message.Draft{ToIdentities: []message.Identity{id}}), "joe")
	}
}

// Digests stay as they are. With identities, no two different requests have the same.
func TestDigestsWithIdentities(t *testing.T) {
	t.Parallel()
	digest := func(m message.Message, identities ...string) string {
		d := m.DigestTo(identities)
		return hex.EncodeToString(d[:])
	}
	m := message.Message{From: "ann", To: []message.UserID{"ben", "cleo"}, Audience: message.AudienceFollowers, Body: "hello", ContentType: "text/plain", Attrs: []byte(`{"n":1}`)}
	require.Equal(t, "5c0726997341ab01b93a79c3043fd04e3b94feb5a5be0f81d3e2df17e01519ab", digest(m))
	plain := m.Digest()
	require.Equal(t, hex.EncodeToString(plain[:]), digest(m))
	require.Equal(t, "ad1018721f3e5916310b8d52a253a2fac5b618dbc8c70528b2954b3acd9db384", digest(m, "email:joe@example.com"))
	require.Equal(t, digest(m, "email:a", "email:b"), digest(m, "email:b", "email:a", "email:b"))

	seen := make(map[string]int)
	for i, d := range []string{
		digest(message.Message{From: "ann", To: []message.UserID{"a", "b"}}),
		digest(message.Message{From: "ann", To: []message.UserID{"a"}}, "b"),
		digest(message.Message{From: "ann"}, "a", "b"),
		digest(message.Message{From: "ann", To: []message.UserID{"a"}, Topics: []message.Topic{"b"}}),
		digest(message.Message{From: "ann", Topics: []message.Topic{"a", "b"}}),
		digest(message.Message{From: "ann", Topics: []message.Topic{"a"}}, "b"),
		digest(message.Message{From: "ann"}, "a"),
		digest(message.Message{From: "ann"}),
	} {
		require.NotContains(t, seen, d, "%d and %d", i, seen[d])
		seen[d] = i
	}
}
