package client_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// Every field of a draft is sent.
func TestDraftsOnTheWire(t *testing.T) {
	t.Parallel()
	draft := message.Draft{
		From: "ann", To: []message.UserID{"ben", "cleo"}, ToIdentities: []message.Identity{{Kind: "email", Value: "joe@example.com"}, {Kind: "phone", Value: "+1"}},
		Audience: message.AudienceFollowers, Topics: []message.Topic{message.Topic("news/de")}, Body: "<hello>", ContentType: "text/plain", Attrs: json.RawMessage(`{"n":1}`),
	}
	value := reflect.ValueOf(draft)
	for i := range value.NumField() {
		require.False(t, value.Field(i).IsZero(), value.Type().Field(i).Name)
	}
	text, err := json.Marshal(client.NewDraft(draft))
	require.NoError(t, err)
	require.JSONEq(t, `{"from":"ann","to":["ben","cleo",{"email":"joe@example.com"},{"phone":"+1"}],"audience":"followers","topics":["news/de"],"body":"<hello>","content_type":"text/plain","attrs":{"n":1}}`, string(text))
	var read client.Draft
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, draft, read.Draft())

	text, err = json.Marshal(client.NewDraft(message.Draft{From: "ann", Body: "x"}))
	require.NoError(t, err)
	require.JSONEq(t, `{"from":"ann","body":"x"}`, string(text))
}

func TestRecipients(t *testing.T) {
	t.Parallel()
	var r client.Recipients
	require.NoError(t, json.Unmarshal([]byte(`["a",{"email":"x"},"b",{"url":"y"},null]`), &r))
	require.Equal(t, []message.UserID{"a", "b", ""}, r.Users)
	require.Equal(t, []message.Identity{{Kind: "email", Value: "x"}, {Kind: "url", Value: "y"}}, r.Identities)
	var places []int
	for i := range 6 {
		places = append(places, r.Place(i))
	}
	require.Equal(t, []int{0, 2, 4, 1, 3, 5}, places)

	require.NoError(t, json.Unmarshal([]byte(`["a","b"]`), &r))
	require.Equal(t, client.Recipients{Users: []message.UserID{"a", "b"}}, r)
	require.Equal(t, 1, r.Place(1))
	require.NoError(t, json.Unmarshal([]byte(`null`), &r))
	require.True(t, r.IsZero())

	for text, want := range map[string]string{
		`[{}]`:                        "to[0] is an object that is not one identity",
		`["a",{"email":"x","url":1}]`: "to[1] is an object that is not one identity",
		`[{"email":"x","url":"y"}]`:   "to[0] is an object that is not one identity",
		`[{"$ne":""}]`:                "to[0] is an object that is not one identity",
		`[{"Email":"secret"}]`:        "to[0] is an object that is not one identity",
		`[{"":"secret"}]`:             "to[0] is an object that is not one identity",
		`[{"email":["secret"]}]`:      "to[0] is an object that is not one identity",
		`[{"email":{"secret":1}}]`:    "to[0] is an object that is not one identity",
		`[1]`:                         "cannot unmarshal number",
		`[{"email":"x"},1]`:           "cannot unmarshal number",
		`{"email":"x"}`:               "cannot unmarshal object",
		`"a"`:                         "cannot unmarshal string",
	} {
		err := json.Unmarshal([]byte(text), &r)
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "secret")
	}
}
