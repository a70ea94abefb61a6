package storetest

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/message"
)

func key(n int, expires time.Time) message.Key {
	return message.Key{From: "ann", Key: "order 17/α", ID: messagetest.ID(n), Digest: fullMessage(n, "ann").Digest(), Expires: expires}
}

func reserved(t *testing.T, keys message.KeyStore, k message.Key, now time.Time) message.Key {
	t.Helper()
	got, err := keys.Reserve(t.Context(), k, now)
	require.NoError(t, err)
	return got
}

func (s messageSuite) reserve(t *testing.T) {
	t.Parallel()
	keys := s.open(t).Keys
	first := key(1, epoch.Add(time.Hour))
	require.Equal(t, first, reserved(t, keys, first, epoch))
	require.Equal(t, first, reserved(t, keys, key(2, epoch.Add(2*time.Hour)), epoch.Add(time.Minute)), "the one that was there")
	require.Equal(t, first, reserved(t, keys, first, epoch.Add(time.Minute)), "repeating changes nothing")
}

func (s messageSuite) findKey(t *testing.T) {
	t.Parallel()
	keys := s.open(t).Keys
	k := key(1, epoch.Add(time.Hour))
	find := func(from message.UserID, text string, now time.Time) (message.Key, bool) {
		found, ok, err := keys.Find(t.Context(), from, text, now)
		require.NoError(t, err)
		return found, ok
	}
	_, ok := find(k.From, k.Key, epoch)
	require.False(t, ok, "not reserved yet")
	reserved(t, keys, k, epoch)
	found, ok := find(k.From, k.Key, k.Expires.Add(-time.Millisecond))
	require.True(t, ok)
	require.Equal(t, k, found)
	_, ok = find("bob", k.Key, epoch)
	require.False(t, ok, "of another sender")
	_, ok = find(k.From, k.Key, k.Expires)
	require.False(t, ok, "expired")
}

func (s messageSuite) reserveExpired(t *testing.T) {
	t.Parallel()
	keys := s.open(t).Keys
	expires := epoch.Add(time.Hour)
	first, second := key(1, expires), key(2, expires.Add(time.Hour))
	reserved(t, keys, first, epoch)
	require.Equal(t, first, reserved(t, keys, second, expires.Add(-time.Millisecond)), "not expired yet")
	require.Equal(t, second, reserved(t, keys, second, expires.Add(time.Millisecond)), "expired")
	require.Equal(t, second, reserved(t, keys, first, expires.Add(2*time.Millisecond)))
}

func (s messageSuite) reserveKeepsApart(t *testing.T) {
	t.Parallel()
	keys := s.open(t).Keys
	all := []message.Key{
		{From: "a", Key: "bc", ID: messagetest.ID(1), Expires: epoch.Add(time.Hour)},
		{From: "ab", Key: "c", ID: messagetest.ID(2), Expires: epoch.Add(time.Hour)},
		{From: "a", Key: "b", ID: messagetest.ID(3), Expires: epoch.Add(time.Hour)},
		{From: "b", Key: "bc", ID: messagetest.ID(4), Expires: epoch.Add(time.Hour)},
	}
	for _, k := range all {
		require.Equal(t, k, reserved(t, keys, k, epoch))
	}
	for _, k := range all {
		require.Equal(t, k, reserved(t, keys, k, epoch))
	}
}

func (s messageSuite) reserveConcurrently(t *testing.T) {
	t.Parallel()
	const callers = 8
	keys := s.open(t).Keys
	got := make([]message.Key, callers)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { got[i], errs[i] = keys.Reserve(t.Context(), key(i, epoch.Add(time.Hour)), epoch) })
	}
	wg.Wait()
	for i := range callers {
		require.NoError(t, errs[i])
		require.Equal(t, got[0], got[i], "all are told of the same reservation")
	}
}

func (s messageSuite) replace(t *testing.T) {
	t.Parallel()
	keys := s.open(t).Keys
	first := key(1, epoch.Add(time.Hour))
	require.ErrorIs(t, keys.Replace(t.Context(), first, messagetest.ID(2)), message.ErrKeyChanged, "nothing is reserved")
	reserved(t, keys, first, epoch)
	require.NoError(t, keys.Replace(t.Context(), first, messagetest.ID(2)))
	second := first
	second.ID = messagetest.ID(2)
	require.Equal(t, second, reserved(t, keys, first, epoch), "all but the id is as it was")
	require.ErrorIs(t, keys.Replace(t.Context(), first, messagetest.ID(3)), message.ErrKeyChanged)
	require.Equal(t, second, reserved(t, keys, first, epoch), "a refused replacement changes nothing")
	require.NoError(t, keys.Replace(t.Context(), second, messagetest.ID(4)))
}

func (s messageSuite) replaceConcurrently(t *testing.T) {
	t.Parallel()
	const callers = 8
	keys := s.open(t).Keys
	first := key(0, epoch.Add(time.Hour))
	reserved(t, keys, first, epoch)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { errs[i] = keys.Replace(t.Context(), first, messagetest.ID(i+1)) })
	}
	wg.Wait()
	winners := 0
	for i, err := range errs {
		if err == nil {
			winners++
			require.Equal(t, messagetest.ID(i+1), reserved(t, keys, first, epoch).ID)
			continue
		}
		require.ErrorIs(t, err, message.ErrKeyChanged)
	}
	require.Equal(t, 1, winners)
}

func (s messageSuite) forget(t *testing.T) {
	t.Parallel()
	keys := s.open(t).Keys
	const expiring = 5
	for i := range expiring + 2 {
		k := message.Key{From: "ann", Key: string(rune('a' + i)), ID: messagetest.ID(i), Expires: epoch.Add(time.Hour)}
		if i >= expiring {
			k.Expires = epoch.Add(3 * time.Hour)
		}
		reserved(t, keys, k, epoch)
	}
	forget := func(now time.Time, limit int) int {
		n, err := keys.Forget(t.Context(), now, limit)
		require.NoError(t, err)
		return n
	}
	require.Zero(t, forget(epoch.Add(time.Hour-time.Millisecond), 100), "none has expired")
	late := epoch.Add(2 * time.Hour)
	require.Equal(t, 2, forget(late, 2))
	require.Equal(t, 3, forget(late, 100))
	require.Zero(t, forget(late, 100))
	for i := range expiring + 2 {
		k := message.Key{From: "ann", Key: string(rune('a' + i)), ID: messagetest.ID(100 + i), Expires: epoch.Add(4 * time.Hour)}
		got := reserved(t, keys, k, epoch)
		if i < expiring {
			require.Equal(t, k, got, "it was forgotten")
		} else {
			require.Equal(t, messagetest.ID(i), got.ID, "it has not expired")
		}
	}
	require.Equal(t, 2, forget(epoch.Add(3*time.Hour+time.Millisecond), 100), "a key reserved again expires later")

	k := message.Key{From: "bob", Key: "k", ID: messagetest.ID(1), Expires: epoch.Add(time.Minute)}
	reserved(t, keys, k, epoch)
	k.ID, k.Expires = messagetest.ID(2), epoch.Add(time.Hour)
	require.Equal(t, k, reserved(t, keys, k, epoch.Add(2*time.Minute)), "taken over after it expired")
	require.Zero(t, forget(epoch.Add(30*time.Minute), 100), "a key taken over expires when the new one does")
	require.Equal(t, k, reserved(t, keys, k, epoch.Add(30*time.Minute)))
}

func (s messageSuite) reopenKeepsKeys(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	first := key(1, epoch.Add(time.Hour))
	reserved(t, h.Keys, first, epoch)
	require.NoError(t, h.Keys.Replace(t.Context(), first, messagetest.ID(2)))
	first.ID = messagetest.ID(2)
	h = h.Reopen(t)
	require.Equal(t, first, reserved(t, h.Keys, key(3, epoch.Add(time.Hour)), epoch))
	n, err := h.Keys.Forget(t.Context(), epoch.Add(2*time.Hour), 100)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	h = h.Reopen(t)
	require.Equal(t, key(3, epoch.Add(time.Hour)), reserved(t, h.Keys, key(3, epoch.Add(time.Hour)), epoch), "forgetting lasts")
}
