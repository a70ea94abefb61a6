package message_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/message"
)

func TestTopicValidate(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", message.MaxSegmentBytes)
	for _, path := range []string{"news", "programming/go", "a/b/c/d/e/f/g/h", long + "/" + long, "ü/😀", "..."} {
		require.NoError(t, message.Topic(path).Validate("topic"), path)
	}
	for path, says := range map[string]string{
		"":                  "topic is empty: a topic has 1 to 8 segments, with a slash between two",
		"a/b/c/d/e/f/g/h/i": "topic has 9 segments: a topic has at most 8",
		"a//b":              "topic, segment 2 is empty: a segment has 1 to 64 bytes",
		"/a":                "topic, segment 1 is empty: a segment has 1 to 64 bytes",
		"a/":                "topic, segment 2 is empty: a segment has 1 to 64 bytes",
		"a/" + long + "y":   "topic, segment 2 has 65 bytes: a segment has at most 64",
		"a/..":              `topic, segment 2 is "..", which cannot be a segment`,
		"a b":               "topic, segment 1 contains white space (U+0020)",
		"a/\x00":            "topic, segment 2 contains the control character U+0000",
		"a/\xff":            "topic, segment 2 is not valid UTF-8",
	} {
		err := message.Topic(path).Validate("topic")
		require.EqualError(t, err, says, "%q", path)
		require.ErrorIs(t, err, message.ErrInvalid)
	}
}

func TestTopicTree(t *testing.T) {
	t.Parallel()
	topic := message.Topic("go/errors/wrapping")
	require.Equal(t, message.Topic("go/errors/wrapping"), topic)
	require.Equal(t, []message.Topic{message.Topic("go"), message.Topic("go/errors"), topic}, slices.Collect(topic.Path()))
	require.Equal(t, message.Topic("go/errors"), topic.Parent())
	require.Empty(t, message.Topic("go").Parent())
	for above, in := range map[string]bool{"go": true, "go/errors": true, "go/errors/wrapping": true, "go/err": false, "g": false, "errors": false, "go/errors/wrapping/x": false} {
		require.Equal(t, in, topic.In(message.Topic(above)), above)
	}
	text, err := json.Marshal(topic)
	require.NoError(t, err)
	require.Equal(t, `"go/errors/wrapping"`, string(text))
	var read message.Topic
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, topic, read)
}

func TestSources(t *testing.T) {
	t.Parallel()
	m := message.Message{From: "ann", Audience: message.AudienceFollowers, Topics: []message.Topic{message.Topic("go/errors"), message.Topic("go/fmt")}}
	require.Equal(t, []string{"topic go", "topic go/errors", "topic go/fmt", "ann"}, texts(m.Sources()))
	for source, reaches := range map[message.Source]bool{
		"ann": true, "bob": false, "go": false, message.Topic("go").Source(): true, message.Topic("go/fmt").Source(): true,
		message.Topic("go/f").Source(): false, message.Topic("ann").Source(): false,
	} {
		require.Equal(t, reaches, m.Reaches(source), source.String())
	}
	m.Audience = message.AudienceListed
	require.Equal(t, []string{"topic go", "topic go/errors", "topic go/fmt"}, texts(m.Sources()))
	require.False(t, m.Reaches("ann"))
	require.True(t, m.Broadcast())
	m.Topics = nil
	require.Empty(t, m.Sources())
	require.False(t, m.Broadcast())
}

func texts(sources []message.Source) []string {
	texts := make([]string, len(sources))
	for i, s := range sources {
		texts[i] = s.String()
	}
	return texts
}

// A digest tells recipients and topics apart. That of a message without topics is as it was before there were any.
func TestDigestOfTopics(t *testing.T) {
	t.Parallel()
	seen := make(map[message.Digest]string)
	for name, m := range map[string]message.Message{
		"two recipients":          {To: []message.UserID{"a", "b"}},
		"a recipient and a topic": {To: []message.UserID{"a"}, Topics: []message.Topic{"b"}},
		"two topics":              {Topics: []message.Topic{"a", "b"}},
		"one topic below another": {Topics: []message.Topic{message.Topic("a/b")}},
		"a topic":                 {Topics: []message.Topic{"a"}},
		"a recipient":             {To: []message.UserID{"a"}},
	} {
		require.Empty(t, seen[m.Digest()], name)
		seen[m.Digest()] = name
	}
	m := message.Message{From: "ann", To: []message.UserID{"ben", "cid"}, Audience: message.AudienceFollowers, Body: "hi", ContentType: "text/plain", Attrs: json.RawMessage(`{}`)}
	require.Equal(t, "97cae266b744be31cad0572fa800ebc6d6b7a8a38a158322cdd952bda7131c85", fmt.Sprintf("%x", m.Digest()))
}

func TestNewWithTopics(t *testing.T) {
	t.Parallel()
	var id message.ID
	limits := message.DefaultLimits()
	draft := message.Draft{From: "ann", Body: "x", Topics: []message.Topic{"news", message.Topic("go/fmt"), "news"}}
	m, err := message.New(id, draft, limits)
	require.NoError(t, err)
	require.Equal(t, []message.Topic{message.Topic("go/fmt"), "news"}, m.Topics)
	require.Empty(t, m.To)
	draft.Topics = append(draft.Topics, "a", "b", "c", "d", "e", "f")
	_, err = message.New(id, draft, limits)
	require.EqualError(t, err, "topics has 9 topics: at most 8 are allowed")
	draft.Topics = []message.Topic{"a", message.Topic("b//c")}
	_, err = message.New(id, draft, limits)
	require.EqualError(t, err, "topics[1], segment 2 is empty: a segment has 1 to 64 bytes")
}
