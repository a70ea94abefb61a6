package publish_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/identities"
	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

// directory is a real store of identities that counts lookups.
type directory struct {
	identity.Store
	lookups []int // the number of identities of each
	err     error
}

// Lookup implements identity.Store.
func (d *directory) Lookup(ctx context.Context, ids []identity.Identity) ([]identity.Looked, error) {
	d.lookups = append(d.lookups, len(ids))
	if d.err != nil {
		return nil, d.err
	}
	return d.Store.Lookup(ctx, ids)
}

// give puts identities of the kind email in force, each for the user with the same name.
func (d *directory) give(t *testing.T, users ...message.UserID) {
	t.Helper()
	for part := range slices.Chunk(users, identity.MaxLookup) {
		var records []identity.Record
		for _, user := range part {
			records = append(records, identity.Record{Identity: email(user), User: user, Form: 1, Since: time.UnixMilli(1)})
		}
		looked, err := d.Insert(t.Context(), records)
		require.NoError(t, err)
		for i := range looked {
			records[i] = looked[i].Record
		}
		_, err = d.Confirm(t.Context(), records)
		require.NoError(t, err)
	}
}

// take removes an identity.
func (d *directory) take(t *testing.T, user message.UserID) {
	t.Helper()
	looked, err := d.Store.Lookup(t.Context(), []identity.Identity{email(user)})
	require.NoError(t, err)
	require.NoError(t, d.Remove(t.Context(), looked[0].Record))
}

func email(user message.UserID) identity.Identity {
	return identity.Identity{Kind: identity.Email, Value: string(user) + "@example.com"}
}

// post is a publisher with a directory.
type post struct {
	*desk
	*directory
}

func newPost(t *testing.T) *post {
	t.Helper()
	db, err := pebblestore.Open(t.Context(), "store", pebblestore.Options{FS: vfs.NewMem(), Now: time.Now, Logger: zerolog.Nop()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return &post{desk: newDesk(t), directory: &directory{Store: db.Identities()}}
}

// publish publishes with a service of its own, as another process would.
func (p *post) publish(ctx context.Context, requests ...publish.Request) []publish.Result {
	return p.publishAhead(ctx, 0, requests...)
}

// publishAhead is publish by a process whose clock is ahead by skew.
func (p *post) publishAhead(ctx context.Context, skew time.Duration, requests ...publish.Request) []publish.Result {
	opts := p.options(skew, nil, zerolog.Nop())
	opts.Identities = identities.New(p.directory, identities.Options{Now: p.Clock.Now})
	return publish.New(p.store, p.Keys, p.emitter, opts).Publish(ctx, requests)
}

// to returns a request for a user and for others by their identities.
func to(key string, user message.UserID, others ...message.UserID) publish.Request {
	r := publish.Request{
		Key: key, Draft: message.Draft{From: "author", Body: "body"}, MayAddress: func(kind string) bool { return kind == "email" },
	}
	if user != "" {
		r.Draft.To = []message.UserID{user}
	}
	for _, other := range others {
		r.Draft.ToIdentities = append(r.Draft.ToIdentities, message.Identity{Kind: "email", Value: string(other) + "@EXAMPLE.com"})
	}
	return r
}

func requireInvalid(t *testing.T, err error, field, reason string) {
	t.Helper()
	var invalid *message.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, field, invalid.Field)
	require.Contains(t, invalid.Reason, reason)
	require.NotContains(t, err.Error(), "@EXAMPLE")
	require.NotContains(t, err.Error(), "joe at")
}

func TestIdentitiesBecomeUsers(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	p.give(t, "joe", "ben")
	results := p.publish(t.Context(), to("", "ann", "joe", "ben", "joe"), to("", "joe", "joe"), to("", "ann"), to("", "", "ben"))
	for i, want := range [][]message.UserID{{"ann", "ben", "joe"}, {"joe"}, {"ann"}, {"ben"}} {
		m := one(t, results[i:i+1])
		require.Equal(t, want, m.To)
		stored, err := p.Messages.Get(t.Context(), m.Ref())
		require.NoError(t, err)
		require.Equal(t, want, stored.To)
	}
	require.Equal(t, []int{2}, p.lookups, "each identity is looked up once for the whole request")
	require.Len(t, p.emitter.emitted, 4)
}

// What is unknown, and what the client may not address, looks the same. Each request stands alone.
func TestUnknownIdentities(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	p.give(t, "joe")
	forbidden, nobody, fax, bad := to("", "ann", "joe"), to("", "ann", "joe", "ben"), to("", "ann", "joe"), to("", "", "joe")
	forbidden.MayAddress = nil
	fax.Draft.ToIdentities[0].Kind, bad.Draft.ToIdentities[0].Value = "fax", "joe at example"
	results := p.publish(t.Context(), forbidden, nobody, fax, bad, to("", "ann", "joe"))
	requireInvalid(t, results[0].Err, "to[1]", "is an identity of the kind email that no user has")
	requireInvalid(t, results[1].Err, "to[2]", "is an identity of the kind email that no user has")
	requireInvalid(t, results[2].Err, "to[1]", "names an identity whose kind is unknown")
	requireInvalid(t, results[3].Err, "to[0]", "names an identity whose value is not a bare email address")
	one(t, results[4:])
	require.Len(t, p.emitter.emitted, 1)

	p.lookups = nil
	results = p.publish(t.Context(), forbidden)
	require.Error(t, results[0].Err)
	require.Empty(t, p.lookups, "what may not be addressed is not even looked up")

	p.err = message.ErrUnavailable
	results = p.publish(t.Context(), to("", "ann", "joe"), to("", "ann"))
	require.ErrorIs(t, results[0].Err, message.ErrUnavailable)
	require.NotContains(t, results[0].Err.Error(), "joe")
	require.NoError(t, results[1].Err)
}

func TestManyIdentities(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	var users []message.UserID
	for n := range 2500 {
		users = append(users, message.UserID("user"+strconv.Itoa(n)))
	}
	p.give(t, users...)
	results := p.publish(t.Context(), to("", "", users[:1500]...), to("", "", users[1000:]...))
	require.Len(t, one(t, results[:1]).To, 1500)
	require.Len(t, one(t, results[1:]).To, 1500)
	require.Equal(t, []int{1000, 1000, 500}, p.lookups)
	requireInvalid(t, p.publish(t.Context(), to("", "ann", make([]message.UserID, message.MaxRecipients)...))[0].Err, "to", "has 10001 recipients")
}

// A repeat returns the receipt of the first request, although the identity has moved or is gone.
func TestARepeatIgnoresWhereTheIdentityWent(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	p.give(t, "joe", "ben")
	first := one(t, p.publish(t.Context(), to("key", "ann", "joe", "ben")))
	p.take(t, "joe")
	p.lookups = nil
	same := to("key", "ann", "ben", "joe") // in another order and form
	same.Draft.ToIdentities[0].Value = "BEN@example.COM"
	require.Equal(t, first, one(t, p.publish(t.Context(), same)))
	require.Empty(t, p.lookups)
	require.Equal(t, first, one(t, p.publish(t.Context(), to("key", "ann", "joe", "ben"), to("", "", "joe"))[:1]))
	for _, other := range []publish.Request{to("key", "ann", "ben"), to("key", "ann"), to("key", "joe", "ben", "ann"), to("key", "", "ann", "ben", "joe")} {
		require.ErrorIs(t, p.publish(t.Context(), other)[0].Err, message.ErrKeyReused)
	}
}

// Whatever a failed request has left of its key, a repeat resolves the identities if no message was stored, and returns that message otherwise.
func TestARepeatAfterAFailure(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, rig.Slack + time.Millisecond} {
		for _, fault := range []rig.Fault{rig.DieBefore, rig.DieAfter, rig.FailBefore, rig.FailAfter} {
			for after := range 3 {
				t.Run(fmt.Sprintf("fault %d after %d operations, again after %v", fault, after, wait), func(t *testing.T) {
					t.Parallel()
					p := newPost(t)
					p.give(t, "joe")
					rig.Start(t.Context(), fault, after, func(ctx context.Context) error {
						p.publish(ctx, to("key", "ann", "joe"))
						return nil
					})
					p.Clock.Advance(wait)
					again := one(t, p.publish(t.Context(), to("key", "ann", "joe")))
					require.Equal(t, []message.UserID{"ann", "joe"}, again.To)
					stored, err := p.Messages.Naming(t.Context(), "joe", message.ID{}, message.MaxID, message.OldestFirst, 10)
					require.NoError(t, err)
					valid := slices.DeleteFunc(stored, func(s message.Stored) bool { return s.Void })
					require.Len(t, valid, 1)
					require.Equal(t, again.ID, valid[0].ID)
				})
			}
		}
	}
}

// The key of a request whose identity no user had is usable when a user gets the identity.
func TestAKeyBeforeItsIdentity(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	requireInvalid(t, p.publish(t.Context(), to("key", "", "joe"))[0].Err, "to[0]", "that no user has")
	p.give(t, "joe")
	p.Clock.Advance(rig.Slack + time.Second)
	require.Equal(t, []message.UserID{"joe"}, one(t, p.publish(t.Context(), to("key", "", "joe"))).To)
}
