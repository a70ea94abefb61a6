package message_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/message"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)

// rfcID is the example of RFC 9562, appendix A.6.
const rfcID = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"

func TestParseID(t *testing.T) {
	t.Parallel()
	id, err := message.ParseID(rfcID)
	require.NoError(t, err)
	require.Equal(t, rfcID, id.String())
	require.Equal(t, time.Date(2022, 2, 22, 19, 22, 22, 0, time.UTC), id.Time())
	upper, err := message.ParseID(strings.ToUpper(rfcID))
	require.NoError(t, err)
	require.Equal(t, id, upper)
}

func TestParseIDRefuses(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]string{
		"nothing":           "",
		"no dashes":         strings.ReplaceAll(rfcID, "-", ""),
		"braces":            "{" + rfcID + "}",
		"too long":          rfcID + "0",
		"too short":         rfcID[:35],
		"dashes elsewhere":  "017f22e-279b0-7cc3-98c4-dc0c0c07398f",
		"no digit":          "017f22e2-79b0-7cc3-98c4-dc0c0c07398g",
		"version 4":         "017f22e2-79b0-4cc3-98c4-dc0c0c07398f",
		"another variant":   "017f22e2-79b0-7cc3-18c4-dc0c0c07398f",
		"the zero id":       message.ID{}.String(),
		"the greatest id":   message.MaxID.String(),
		"characters beyond": "017f22e2-79b0-7cc3-98c4-dc0c0c0739é",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id, err := message.ParseID(s)
			requireInvalid(t, err, "id")
			require.Zero(t, id)
		})
	}
}

func requireInvalid(t *testing.T, err error, field string) {
	t.Helper()
	require.ErrorIs(t, err, message.ErrInvalid)
	var invalid *message.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, field, invalid.Field)
	require.NotEmpty(t, invalid.Reason)
	require.Equal(t, field+" "+invalid.Reason, err.Error())
}

func FuzzParseID(f *testing.F) {
	f.Add(rfcID)
	f.Add(strings.ToUpper(rfcID))
	f.Add(message.MaxID.String())
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := message.ParseID(s)
		if err != nil {
			requireInvalid(t, err, "id")
			return
		}
		require.Equal(t, strings.ToLower(s), id.String())
		again, err := message.ParseID(id.String())
		require.NoError(t, err)
		require.Equal(t, id, again)
	})
}

func TestIDAsJSON(t *testing.T) {
	t.Parallel()
	id, err := message.ParseID(rfcID)
	require.NoError(t, err)
	data, err := json.Marshal(map[message.ID]message.ID{id: id})
	require.NoError(t, err)
	require.JSONEq(t, `{"`+rfcID+`":"`+rfcID+`"}`, string(data))
	var back map[message.ID]message.ID
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, map[message.ID]message.ID{id: id}, back)
	var one message.ID
	require.Error(t, json.Unmarshal([]byte(`"x"`), &one))
	require.Zero(t, one)
}

func TestIDOrder(t *testing.T) {
	t.Parallel()
	id, err := message.ParseID(rfcID)
	require.NoError(t, err)
	ordered := []message.ID{{}, message.MinID(id.Time()), id, message.MinID(id.Time().Add(time.Millisecond)), message.MaxID}
	for i, x := range ordered {
		for j, y := range ordered {
			require.Equal(t, i < j, x.Less(y))
			require.Equal(t, min(1, max(-1, i-j)), x.Compare(y))
		}
		require.Equal(t, i == 0, x.IsZero())
	}
}

func TestLastBefore(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{epoch, epoch.Truncate(time.Hour), time.UnixMilli(1), time.UnixMilli(0x1_0000_0000), message.MaxID.Time()} {
		bound := message.LastBefore(at)
		require.Equal(t, message.MinID(at), bound.Next(), "nothing lies between")
		require.Equal(t, at.Truncate(time.Millisecond).Add(-time.Millisecond).UTC(), bound.Time())
		_, err := message.ParseID(bound.String())
		require.Error(t, err, "it is never the id of a message")
	}
	require.Equal(t, message.LastBefore(epoch.Truncate(time.Millisecond)), message.LastBefore(epoch.Add(999*time.Nanosecond)))
	for _, at := range []time.Time{time.UnixMilli(0), time.UnixMilli(-1), {}} {
		require.Zero(t, message.LastBefore(at))
	}
}

func TestIDNext(t *testing.T) {
	t.Parallel()
	require.Equal(t, message.ID{15: 1}, message.ID{}.Next())
	require.Equal(t, message.ID{13: 1}, message.ID{14: 0xff, 15: 0xff}.Next(), "it carries")
	require.Equal(t, message.MaxID, message.MaxID.Next(), "nothing is above")
}

func TestMinIDBounds(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{time.UnixMilli(0), epoch, epoch.Add(999 * time.Microsecond), time.UnixMilli(1<<48 - 1)} {
		require.Equal(t, at.Truncate(time.Millisecond).UTC(), message.MinID(at).Time())
	}
}

// clock is a clock that tests set.
type clock struct{ now time.Time }

func (c *clock) read() time.Time { return c.now }

// stream is a source of random bytes that repeats a pattern.
type stream struct{ pattern byte }

func (s stream) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = s.pattern
	}
	return len(p), nil
}

func next(t *testing.T, g *message.Generator) message.ID {
	t.Helper()
	id, err := g.Next()
	require.NoError(t, err)
	parsed, err := message.ParseID(id.String())
	require.NoError(t, err, "every id is a UUID of version 7")
	require.Equal(t, id, parsed)
	return id
}

func TestGeneratorFollowsTheClock(t *testing.T) {
	t.Parallel()
	c := &clock{now: epoch.Add(999 * time.Microsecond)}
	g := message.NewGenerator(c.read, rand.Reader)
	require.Equal(t, epoch, next(t, g).Time())
	c.now = epoch.Add(time.Hour)
	require.Equal(t, c.now, next(t, g).Time())
}

func TestGeneratorRisesWithinAMillisecond(t *testing.T) {
	t.Parallel()
	for name, random := range map[string]byte{"the lowest random bytes": 0x00, "the highest random bytes": 0xff} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const count = 10_000 // more than the counter holds
			c := &clock{now: epoch}
			g := message.NewGenerator(c.read, stream{pattern: random})
			var last message.ID
			for range count {
				id := next(t, g)
				require.True(t, last.Less(id), "%s then %s", last, id)
				last = id
			}
			require.True(t, last.Time().After(epoch), "the counter carries into the time")
			require.LessOrEqual(t, last.Time().Sub(epoch), 10*time.Millisecond, "at least 2,048 ids fit into a millisecond")
			c.now = epoch.Add(time.Second)
			require.Equal(t, c.now, next(t, g).Time(), "it follows the clock again")
		})
	}
}

func TestGeneratorClockSetBack(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		back  time.Duration
		rises bool
	}{
		{"by a millisecond", time.Millisecond, true},
		{"by a second", time.Second, true},
		{"by more than a second", time.Second + time.Millisecond, false},
		{"by a day", 24 * time.Hour, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := &clock{now: epoch}
			g := message.NewGenerator(c.read, rand.Reader)
			before := next(t, g)
			c.now = epoch.Add(-test.back)
			after := next(t, g)
			require.Equal(t, test.rises, before.Less(after))
			if test.rises {
				require.Equal(t, epoch, after.Time())
			} else {
				require.Equal(t, c.now, after.Time(), "a clock that jumped is believed")
			}
			require.True(t, after.Less(next(t, g)))
		})
	}
}

func TestGeneratorWithoutRandomBytes(t *testing.T) {
	t.Parallel()
	g := message.NewGenerator((&clock{now: epoch}).read, bytes.NewReader(make([]byte, 15)))
	_, err := g.Next()
	require.NoError(t, err)
	_, err = g.Next()
	require.Error(t, err)
	require.NotErrorIs(t, err, message.ErrInvalid)
	broken := errors.New("broken")
	_, err = message.NewGenerator((&clock{now: epoch}).read, failing{broken}).Next()
	require.ErrorIs(t, err, broken)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestGeneratorConcurrently(t *testing.T) {
	t.Parallel()
	const callers, each = 8, 2000
	c := &clock{now: epoch}
	g := message.NewGenerator(c.read, rand.Reader)
	made := make([][]message.ID, callers)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for range each {
				id, err := g.Next()
				if err != nil {
					errs[i] = err
				}
				made[i] = append(made[i], id)
			}
		})
	}
	wg.Wait()
	var all []message.ID
	for i := range callers {
		require.NoError(t, errs[i])
		require.True(t, slices.IsSortedFunc(made[i], message.ID.Compare), "ids rise for every caller")
		all = append(all, made[i]...)
	}
	slices.SortFunc(all, message.ID.Compare)
	require.Len(t, slices.Compact(all), callers*each, "no id is made twice")
}
