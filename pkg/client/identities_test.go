package client_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

func TestIdentities(t *testing.T) {
	t.Parallel()
	c, ctx := newClient(t), t.Context()
	joe, site := message.Identity{Kind: "email", Value: "Joe@example.com"}, message.Identity{Kind: "url", Value: "https://example.com/%7Ejoe/?a=b#c"}
	require.NoError(t, c.SetIdentity(ctx, joe, "joe"))
	require.NoError(t, c.SetIdentity(ctx, joe, "joe"))
	require.NoError(t, c.SetIdentity(ctx, site, "joe"))
	refused := func(err error, want client.ProblemType) {
		t.Helper()
		var problem *client.Problem
		require.ErrorAs(t, err, &problem)
		require.Equal(t, want, problem.Type)
	}
	refused(c.SetIdentity(ctx, joe, "ben"), client.ProblemConflict)
	refused(c.SetIdentity(ctx, message.Identity{Kind: "fax", Value: "1"}, "ben"), client.ProblemInvalid)
	for _, dots := range []string{".", "..", "..."} {
		refused(c.SetIdentity(ctx, message.Identity{Kind: "email", Value: dots}, "ben"), client.ProblemInvalid)
		refused(c.DeleteIdentity(ctx, message.Identity{Kind: dots, Value: "x"}, ""), client.ProblemInvalid)
	}
	for _, id := range []message.Identity{joe, site} {
		user, err := c.Identity(ctx, id)
		require.NoError(t, err)
		require.Equal(t, message.UserID("joe"), user)
	}
	list, err := c.Identities(ctx, "joe")
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, message.Identity{Kind: "email", Value: "joe@example.com"}, list[0])

	result, err := c.SetIdentityBatch(ctx, []client.IdentityLine{{Kind: "handle", Value: "@ben", User: "ben"}, {Kind: "handle", Value: "ben", User: "joe"}})
	require.NoError(t, err)
	require.Equal(t, 1, result.Accepted)
	require.Len(t, result.Rejected, 1)

	receipt, err := c.Publish(ctx, message.Draft{From: "ann", To: []message.UserID{"cleo"}, ToIdentities: []message.Identity{joe}, Body: "x"}, "key")
	require.NoError(t, err)
	require.NoError(t, c.DeleteIdentity(ctx, joe, "ben"))
	_, err = c.Identity(ctx, joe)
	require.NoError(t, err)
	require.NoError(t, c.DeleteIdentity(ctx, joe, "joe"))
	_, err = c.Identity(ctx, joe)
	refused(err, client.ProblemNotFound)
	status, err := c.Status(ctx, receipt.ID)
	require.NoError(t, err)
	require.Equal(t, []message.UserID{"cleo", "joe"}, status.To)
	answers, err := c.PublishBatch(ctx, []message.Draft{{From: "ann", ToIdentities: []message.Identity{joe}, Body: "x"}}, "")
	require.NoError(t, err)
	refused(answers[0].Err, client.ProblemInvalid)

	for _, bad := range []message.Identity{{}, {Kind: "email"}, {Value: "joe@example.com"}} {
		require.ErrorIs(t, c.SetIdentity(ctx, bad, "joe"), message.ErrInvalid)
		require.ErrorIs(t, c.DeleteIdentity(ctx, bad, ""), message.ErrInvalid)
	}
	require.ErrorIs(t, c.SetIdentity(ctx, joe, ""), message.ErrInvalid)
	_, err = c.Identities(ctx, "")
	require.ErrorIs(t, err, message.ErrInvalid)
}
