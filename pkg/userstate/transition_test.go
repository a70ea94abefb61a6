package userstate_test

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

const (
	ms        = time.Millisecond
	tolerance = 2 * time.Minute
)

var (
	rules   = userstate.DefaultRules()
	horizon = epoch.Add(30 * day) // of a user seen at the epoch
	edge    = horizon.Add(-tolerance)
)

func lease(token string, until time.Time) userstate.Lease {
	return userstate.Lease{Token: token, Until: until, Since: until.Add(-time.Minute)}
}

// marked returns the state of a user whose rehydration is held under the token "mine".
func marked() userstate.State {
	st := seen(horizon.Add(day))
	st.Mark, st.Lease = &userstate.Mark{From: horizon}, lease("mine", horizon.Add(day))
	st.Head, st.ReadMark, st.Recovered = bucket.Hint{Sequence: 3}, bucket.ReadMark{Slots: 7}, 5
	st.Gaps = []userstate.Gap{{After: epoch.Add(-2 * day), Before: epoch.Add(-day), Messages: 9}}
	return st
}

func swept() userstate.State {
	st := marked()
	st.Mark, st.Sweep = nil, &userstate.Sweep{From: horizon.Add(time.Hour)}
	return st
}

// Each raise of the horizon leaves a debt in the same update. A view that leaves none does not raise it.
func TestArrive(t *testing.T) {
	t.Parallel()
	const enough = 30 * day / 32
	renewed := lease("new", horizon.Add(2*day))
	untaken := func(since time.Time) userstate.Lease {
		return userstate.Lease{Until: time.UnixMilli(0).UTC(), Since: since}
	}
	with := func(st userstate.State, horizon time.Time) userstate.State {
		st.Horizon = horizon
		return st
	}
	bounded := marked()
	bounded.Mark.Bounded = true
	late := with(swept(), horizon.Add(30*day))
	late.Sweep = &userstate.Sweep{From: horizon.Add(90 * day)}
	for _, test := range []struct {
		name         string
		dormantAfter time.Duration // 0 means the usual one
		state        userstate.State
		at, now      time.Time
		want         func(*userstate.State)
	}{
		{"active, gains too little", 0, seen(epoch), epoch.Add(enough - ms), epoch, func(st *userstate.State) {
			st.LastViewed = epoch.Add(enough - ms)
		}},
		{"active, gains just enough", 0, seen(epoch), epoch.Add(enough), epoch.Add(enough), func(st *userstate.State) {
			st.LastViewed, st.Horizon = epoch.Add(enough), horizon.Add(enough)
			st.Sweep, st.Lease = &userstate.Sweep{From: horizon}, renewed
		}},
		{"active, between milliseconds", 0, seen(epoch), epoch.Add(ms + 999*time.Microsecond).In(time.FixedZone("east", 3600)), epoch, func(st *userstate.State) {
			st.LastViewed = epoch.Add(ms)
		}},
		{"active, a clock that is behind", 0, seen(epoch), epoch.Add(-9 * day), epoch.Add(-9 * day), func(*userstate.State) {}},
		{"just active", 0, seen(epoch), epoch.Add(ms), edge.Add(-ms), func(st *userstate.State) { st.LastViewed = epoch.Add(ms) }},
		{"active, a sweep is due", 0, with(swept(), horizon.Add(30*day)), horizon.Add(9 * day), horizon.Add(9 * day), func(st *userstate.State) {
			st.LastViewed, st.Horizon, st.Lease = horizon.Add(9*day), horizon.Add(39*day), untaken(swept().Lease.Since)
		}},
		{"active, a sweep is due from later", 0, late, horizon.Add(9 * day), horizon.Add(9 * day), func(st *userstate.State) {
			st.LastViewed, st.Horizon, st.Lease = horizon.Add(9*day), horizon.Add(39*day), untaken(swept().Lease.Since)
			st.Sweep = &userstate.Sweep{From: horizon.Add(30 * day)}
		}},
		{"active by the horizon only", 0, with(seen(epoch), horizon.Add(99*day)), horizon.Add(day), horizon.Add(day), func(st *userstate.State) {
			st.LastViewed = horizon.Add(day)
		}},
		{"dormant", 0, seen(epoch), horizon.Add(day), horizon.Add(day), func(st *userstate.State) {
			st.LastViewed, st.Horizon = horizon.Add(day), horizon.Add(31*day)
			st.Mark, st.Lease = &userstate.Mark{From: horizon}, renewed
		}},
		{"just dormant, and the horizon does not rise", 0, seen(epoch), epoch, edge, func(st *userstate.State) {
			st.Mark, st.Lease = &userstate.Mark{From: horizon}, renewed
		}},
		{"dormant, gains little", 0, seen(epoch), epoch.Add(ms), horizon, func(st *userstate.State) {
			st.LastViewed, st.Horizon = epoch.Add(ms), horizon.Add(ms)
			st.Mark, st.Lease = &userstate.Mark{From: horizon}, renewed
		}},
		{"dormant, a sweep is due", 0, swept(), horizon.Add(99 * day), horizon.Add(99 * day), func(st *userstate.State) {
			st.LastViewed, st.Horizon = horizon.Add(99*day), horizon.Add(129*day)
			st.Mark, st.Lease = &userstate.Mark{From: horizon.Add(31 * day)}, renewed
		}},
		{"never seen", 0, seen(time.Time{}), epoch, epoch, func(st *userstate.State) {
			st.LastViewed, st.Horizon, st.Mark, st.Lease = epoch, horizon, &userstate.Mark{}, renewed
		}},
		{"never seen, looked long ago", 0, seen(time.Time{}), epoch, epoch.Add(365 * day), func(st *userstate.State) {
			st.LastViewed, st.Horizon, st.Mark, st.Lease = epoch, horizon, &userstate.Mark{}, renewed
		}},
		{"while a mark is held, gains little", 0, marked(), horizon.Add(day + ms), horizon.Add(day), func(st *userstate.State) {
			st.LastViewed = horizon.Add(day + ms)
		}},
		{"while a mark is held, gains enough", 0, with(marked(), horizon.Add(30*day)), horizon.Add(day), horizon.Add(day), func(st *userstate.State) {
			st.LastViewed, st.Horizon = horizon.Add(day), horizon.Add(31*day)
		}},
		{"while a mark's lease just dies", 0, bounded, horizon.Add(day), horizon.Add(day + ms), func(st *userstate.State) {
			st.Lease = userstate.Lease{Token: "new", Until: renewed.Until, Since: bounded.Lease.Since}
		}},
		{"while a mark's lease is dead, dormant again", 0, with(marked(), horizon.Add(2*day)), horizon.Add(2*day + ms), horizon.Add(2 * day), func(st *userstate.State) {
			st.LastViewed, st.Horizon = horizon.Add(2*day+ms), horizon.Add(32*day+ms)
			st.Lease = userstate.Lease{Token: "new", Until: renewed.Until, Since: st.Lease.Since}
		}},
		{"the setting was lowered", 7 * day, seen(epoch), epoch.Add(20 * day), epoch.Add(20 * day), func(st *userstate.State) {
			st.LastViewed = epoch.Add(20 * day)
		}},
		{"the setting was lowered, much later", 7 * day, seen(epoch), epoch.Add(25 * day), epoch.Add(25 * day), func(st *userstate.State) {
			st.LastViewed, st.Horizon = epoch.Add(25*day), epoch.Add(32*day)
			st.Sweep, st.Lease = &userstate.Sweep{From: horizon}, renewed
		}},
		{"the setting was raised", 60 * day, seen(epoch), epoch.Add(ms), epoch.Add(ms), func(st *userstate.State) {
			st.LastViewed, st.Horizon = epoch.Add(ms), epoch.Add(60*day+ms)
			st.Sweep, st.Lease = &userstate.Sweep{From: horizon}, renewed
		}},
		{"the setting was raised, and the user is dormant", 60 * day, seen(epoch), horizon.Add(day), horizon.Add(day), func(st *userstate.State) {
			st.LastViewed, st.Horizon = horizon.Add(day), horizon.Add(61*day)
			st.Mark, st.Lease = &userstate.Mark{From: horizon}, renewed
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			rules := rules
			rules.DormantAfter = cmp.Or(test.dormantAfter, rules.DormantAfter)
			before, want := test.state, test.state
			test.want(&want)
			got := rules.Arrive(test.state, test.at, test.now, renewed)
			require.Equal(t, want, got)
			require.Equal(t, before, test.state)
			require.Equal(t, got, rules.Arrive(got, test.at, test.now, renewed), "the same view again changes nothing")
			alone := want
			alone.LastViewed = test.state.LastViewed
			view := rules.View(want.User, test.at, test.now)
			if test.state.Mark == nil && view.Applies(test.state) {
				require.Equal(t, test.state, alone, "a view that applies changes nothing else")
			}
			require.Equal(t, rules.Active(want, test.now), view.Applies(want), "afterwards the horizon need not rise again")
		})
	}
}

func TestTransitionsCutTimes(t *testing.T) {
	t.Parallel()
	rough := horizon.Add(day + 1999*time.Microsecond).In(time.FixedZone("east", 3600))
	cut := horizon.Add(day + ms)
	st := rules.Arrive(seen(epoch), rough, rough, userstate.Lease{Token: "new", Until: rough, Since: rough})
	require.Equal(t, userstate.Lease{Token: "new", Until: cut, Since: cut}, st.Lease)
	require.Equal(t, cut, st.LastViewed)
	taken, ok := swept().TakeOver(userstate.Lease{Token: "new", Until: rough})
	require.True(t, ok)
	require.Equal(t, cut, taken.Lease.Until)
	renewed, ok := swept().Renew("mine", rough)
	require.True(t, ok)
	require.Equal(t, cut, renewed.Lease.Until)
}

func TestTakeOver(t *testing.T) {
	t.Parallel()
	both := marked()
	both.Sweep = swept().Sweep
	for name, st := range map[string]userstate.State{"mark": marked(), "sweep": swept(), "both": both} {
		want := st
		want.Lease = userstate.Lease{Token: "new", Until: horizon.Add(2 * day), Since: st.Lease.Since}
		got, ok := st.TakeOver(lease("new", horizon.Add(2*day)))
		require.True(t, ok, name)
		require.Equal(t, want, got, "%s: only the holder changes, and it has been due since it was", name)
	}
	got, ok := seen(epoch).TakeOver(lease("new", horizon))
	require.False(t, ok, "there is nothing to be done")
	require.Equal(t, seen(epoch), got)
}

// steps are the transitions of a lease holder, by token.
var steps = map[string]func(st userstate.State, token string) (userstate.State, bool){
	"renew": func(st userstate.State, token string) (userstate.State, bool) {
		return st.Renew(token, horizon.Add(3*day))
	},
	"bound":  func(st userstate.State, token string) (userstate.State, bool) { return st.Bound(token, nil) },
	"settle": func(st userstate.State, token string) (userstate.State, bool) { return st.Settle(token, 1) },
	"finish": func(st userstate.State, token string) (userstate.State, bool) { return st.Finish(token, 1, nil) },
}

func TestOnlyTheHolderSteps(t *testing.T) {
	t.Parallel()
	both, idle := marked(), seen(epoch)
	both.Sweep = swept().Sweep
	bounded := marked()
	bounded.Mark = &userstate.Mark{From: horizon, Bounded: true}
	applies := map[string]map[string]bool{
		"mark":         {"renew": true, "bound": true, "settle": true},
		"bounded mark": {"renew": true, "settle": true},
		"sweep":        {"renew": true, "finish": true},
		"both":         {"renew": true, "bound": true, "settle": true},
		"neither":      {},
	}
	states := map[string]userstate.State{"mark": marked(), "bounded mark": bounded, "sweep": swept(), "both": both, "neither": idle}
	for of, st := range states {
		for name, step := range steps {
			got, ok := step(st, "mine")
			require.Equal(t, applies[of][name], ok, "%s of %s", name, of)
			require.Equal(t, !ok, got.Same(st), "%s of %s", name, of)
			for _, token := range []string{"", "theirs"} {
				got, ok := step(st, token)
				require.False(t, ok, "%s of %s by %q", name, of, token)
				require.Equal(t, st, got, "%s of %s by %q", name, of, token)
			}
			ownerless := st
			ownerless.Lease.Token = ""
			_, ok = step(ownerless, "")
			require.False(t, ok, "%s of %s: nobody is no holder", name, of)
		}
	}
}

func TestRenew(t *testing.T) {
	t.Parallel()
	want := marked()
	want.Lease.Until = horizon.Add(3 * day)
	got, _ := marked().Renew("mine", horizon.Add(3*day))
	require.Equal(t, want, got)
}

func TestBound(t *testing.T) {
	t.Parallel()
	st := marked()
	want := marked()
	want.Mark.Bounded = true
	got, ok := st.Bound("mine", nil)
	require.True(t, ok)
	require.Equal(t, want, got)

	gap := userstate.Gap{After: horizon, Before: horizon.Add(time.Hour), Messages: 4}
	st.Gaps = append(make([]userstate.Gap, 0, 8), st.Gaps...) // has room for more
	got, ok = st.Bound("mine", &gap)
	require.True(t, ok)
	want.Gaps, want.GapsMade = append(want.Gaps, gap), 1
	require.Equal(t, want, got)
	other, _ := st.Bound("mine", &userstate.Gap{})
	require.Equal(t, want, got, "two states never share a gap")
	require.Len(t, other.Gaps, 2)
	unchanged := marked()
	unchanged.Gaps = st.Gaps
	require.Equal(t, unchanged, st, "what it was made of is as it was")
	require.Len(t, st.Gaps, 1)
}

func TestSettle(t *testing.T) {
	t.Parallel()
	from := marked().Mark.From
	for _, test := range []struct {
		name        string
		sweep, want time.Time
	}{
		{"no sweep", time.Time{}, from},
		{"an earlier sweep", from.Add(-ms), from.Add(-ms)},
		{"a sweep of the same time", from, from},
		{"a later sweep", from.Add(ms), from},
	} {
		st := marked()
		if !test.sweep.IsZero() {
			st.Sweep = &userstate.Sweep{From: test.sweep}
		}
		want := st
		want.Mark, want.Sweep, want.Recovered = nil, &userstate.Sweep{From: test.want}, 17
		got, ok := st.Settle("mine", 17)
		require.True(t, ok, test.name)
		require.Equal(t, want, got, test.name)
	}
}

func TestFinish(t *testing.T) {
	t.Parallel()
	want := swept()
	want.Sweep, want.Lease, want.Recovered = nil, userstate.Lease{}, 7
	got, ok := swept().Finish("mine", 2, nil)
	require.True(t, ok)
	require.Equal(t, want, got, "what the sweep found is added")
}

func TestOweSweep(t *testing.T) {
	t.Parallel()
	now := horizon.Add(2*day + 999*time.Microsecond)
	dead := userstate.Lease{Until: time.UnixMilli(0).UTC(), Since: horizon.Add(2 * day)}
	early, free := swept(), swept()
	early.Sweep = &userstate.Sweep{From: epoch}
	free.Lease.Token = ""
	for _, test := range []struct {
		name  string
		state userstate.State
		want  func(*userstate.State) // nil if a sweep is certain anyway
	}{
		{"at rest", seen(epoch), func(st *userstate.State) { st.Sweep, st.Lease = &userstate.Sweep{From: horizon}, dead }},
		{"while a mark is there", marked(), nil},
		{"while a worker sweeps", swept(), func(st *userstate.State) {
			st.Lease = userstate.Lease{Until: dead.Until, Since: swept().Lease.Since}
		}},
		{"while a worker sweeps from long ago", early, func(st *userstate.State) {
			st.Lease = userstate.Lease{Until: dead.Until, Since: early.Lease.Since}
		}},
		{"before a worker sweeps", free, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			want := test.state
			if test.want != nil {
				test.want(&want)
			}
			got, owed := test.state.OweSweep(now)
			require.Equal(t, test.want != nil, owed)
			require.Equal(t, want, got)
			_, owed = got.OweSweep(now)
			require.False(t, owed, "once is enough")
		})
	}
}

func TestOweFrom(t *testing.T) {
	t.Parallel()
	now, from := horizon.Add(2*day), epoch.Add(day)
	fresh := userstate.Lease{Until: time.UnixMilli(0).UTC(), Since: now}
	since := func(st userstate.State) userstate.Lease {
		return userstate.Lease{Until: fresh.Until, Since: st.Lease.Since}
	}
	early, free := swept(), swept()
	early.Sweep = &userstate.Sweep{From: epoch}
	free.Sweep, free.Lease.Token = &userstate.Sweep{From: epoch}, ""
	for _, test := range []struct {
		name  string
		state userstate.State
		want  func(*userstate.State) // nil if a look is certain anyway
	}{
		{"never seen", userstate.State{User: "ann"}, nil},
		{"at rest", seen(epoch), func(st *userstate.State) { st.Sweep, st.Lease = &userstate.Sweep{From: from}, fresh }},
		{"while a mark is there", marked(), func(st *userstate.State) { st.Sweep, st.Lease = &userstate.Sweep{From: from}, since(*st) }},
		{"while a worker sweeps", swept(), func(st *userstate.State) { st.Sweep, st.Lease = &userstate.Sweep{From: from}, since(*st) }},
		{"while a worker sweeps from earlier on", early, func(st *userstate.State) { st.Lease = since(*st) }},
		{"before a worker sweeps from earlier on", free, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			want := test.state
			if test.want != nil {
				test.want(&want)
			}
			got, owed := test.state.OweFrom(from.Add(999*time.Microsecond), now)
			require.Equal(t, test.want != nil, owed)
			require.Equal(t, want, got)
			_, owed = got.OweFrom(from, now)
			require.False(t, owed, "once is enough")
		})
	}
}

func TestDead(t *testing.T) {
	t.Parallel()
	last := epoch.Add(userstate.MaxLease + rules.ClockTolerance)
	for until, want := range map[time.Time]bool{
		{}: true, epoch.Add(-ms): true, epoch: false, epoch.Add(time.Hour): false, last: false, last.Add(ms): true,
	} {
		require.Equal(t, want, rules.Dead(epoch).Holds(lease("mine", until)), until)
	}
}

func TestMissingFrom(t *testing.T) {
	t.Parallel()
	both, late := marked(), marked()
	both.Sweep, late.Sweep = &userstate.Sweep{From: epoch}, swept().Sweep
	for name, test := range map[string]struct {
		state userstate.State
		want  time.Time
	}{
		"mark": {marked(), horizon}, "sweep": {swept(), swept().Sweep.From}, "an earlier sweep": {both, epoch}, "a later sweep": {late, horizon},
	} {
		from, missing := test.state.MissingFrom()
		require.True(t, missing, name)
		require.Equal(t, test.want, from, name)
	}
	_, missing := seen(epoch).MissingFrom()
	require.False(t, missing)
}

func TestSame(t *testing.T) {
	t.Parallel()
	full := func() userstate.State {
		st := marked()
		st.Sweep = swept().Sweep
		return st
	}
	for name, change := range map[string]func(*userstate.State){
		"last viewed":       func(st *userstate.State) { st.LastViewed = st.LastViewed.Add(ms) },
		"mark":              func(st *userstate.State) { st.Mark = nil },
		"from":              func(st *userstate.State) { st.Mark.From = horizon.Add(ms) },
		"bounded":           func(st *userstate.State) { st.Mark.Bounded = true },
		"sweep":             func(st *userstate.State) { st.Sweep = nil },
		"from of the sweep": func(st *userstate.State) { st.Sweep = &userstate.Sweep{From: horizon} },
		"token":             func(st *userstate.State) { st.Lease.Token = "theirs" },
		"until":             func(st *userstate.State) { st.Lease.Until = st.Lease.Until.Add(ms) },
		"since":             func(st *userstate.State) { st.Lease.Since = st.Lease.Since.Add(ms) },
		"gaps":              func(st *userstate.State) { st.Gaps = nil },
		"after":             func(st *userstate.State) { st.Gaps[0].After = st.Gaps[0].After.Add(ms) },
		"before":            func(st *userstate.State) { st.Gaps[0].Before = st.Gaps[0].Before.Add(ms) },
		"messages":          func(st *userstate.State) { st.Gaps[0].Messages++ },
		"recovered":         func(st *userstate.State) { st.Recovered++ },
		"read mark":         func(st *userstate.State) { st.ReadMark.InGap++ },
	} {
		st := full()
		change(&st)
		require.False(t, st.Same(full()), name)
		require.False(t, full().Same(st), name)
	}
	for name, change := range map[string]func(*userstate.State){
		"head": func(st *userstate.State) { st.Head = bucket.Hint{} },
		"the zone": func(st *userstate.State) {
			zone := time.FixedZone("east", 3600)
			st.LastViewed, st.Lease.Until = st.LastViewed.In(zone), st.Lease.Until.In(zone)
		},
	} {
		st := full()
		change(&st)
		require.True(t, st.Same(full()), name)
	}
	require.True(t, userstate.State{User: "ann"}.Same(userstate.State{User: "ann", Gaps: []userstate.Gap{}}))
}

// idsAt returns the least and the greatest id of a message that was sent at a time.
func idsAt(sent time.Time) []message.ID {
	least, greatest := message.MinID(sent), message.LastBefore(sent.Add(ms))
	least[6], least[8] = 0x70, 0x80
	greatest[6], greatest[8] = 0x7f, 0xbf
	return []message.ID{least, greatest}
}

func TestGap(t *testing.T) {
	t.Parallel()
	gap := userstate.Gap{After: epoch, Before: epoch.Add(time.Hour)}
	for sent, holds := range map[time.Time]bool{
		epoch.Add(-ms): false, epoch: false, epoch.Add(ms): true,
		epoch.Add(time.Hour - ms): true, epoch.Add(time.Hour): false, epoch.Add(time.Hour + ms): false,
	} {
		require.Equal(t, holds, gap.Holds(sent), sent)
		st := seen(epoch)
		st.Gaps = []userstate.Gap{{After: epoch.Add(-2 * day), Before: epoch.Add(-day)}, gap}
		require.Equal(t, holds, st.InGap(sent), sent)
		for _, id := range idsAt(sent) {
			require.Equal(t, holds, gap.Stretch().Holds(id), "%v, %s", sent, id)
		}
	}
	sinceEver := userstate.Gap{Before: epoch}
	require.True(t, sinceEver.Holds(time.UnixMilli(0)))
	require.True(t, sinceEver.Stretch().Holds(idsAt(time.UnixMilli(0))[0]))
}

func TestStateTells(t *testing.T) {
	t.Parallel()
	require.True(t, marked().Rehydrating())
	require.True(t, swept().Rehydrating(), "a sweep may still find messages")
	require.False(t, seen(epoch).Rehydrating())
	require.False(t, userstate.State{User: "ann"}.Known())
	require.True(t, userstate.State{User: "ann", Head: bucket.Hint{Sequence: 1}}.Empty())
	kept := userstate.State{User: "ann", Keep: userstate.Retention{Newest: 1}}
	require.False(t, kept.Empty())
	require.False(t, kept.Known())
	require.False(t, kept.Deliver(epoch))
	_, owed := kept.OweFrom(epoch, epoch)
	require.False(t, owed)
	arrived := rules.Arrive(kept, epoch, epoch, userstate.Lease{Token: "a"})
	require.Equal(t, kept.Keep, arrived.Keep)
	require.Equal(t, &userstate.Mark{}, arrived.Mark, "all that was ever sent is missing")
}

// TestDeliverWhileRehydrating holds Deliver to the horizon, the mark and the gaps, to the millisecond.
func TestDeliverWhileRehydrating(t *testing.T) {
	t.Parallel()
	gap := userstate.Gap{After: horizon, Before: horizon.Add(time.Hour), Messages: 4}
	both, gone := marked(), swept()
	both.Sweep = &userstate.Sweep{From: epoch}
	both.Gaps = append(both.Gaps, gap)
	gone.Gaps = append(gone.Gaps, gap)
	never := seen(epoch)
	never.Mark = &userstate.Mark{}
	next := horizon.Add(31 * day) // of a user who is marked or swept
	for _, test := range []struct {
		name    string
		state   userstate.State
		sent    time.Time
		deliver bool
	}{
		{"marked: at the mark", marked(), horizon, true},
		{"marked: after the mark", marked(), horizon.Add(ms), false},
		{"marked: just before the old gap", marked(), epoch.Add(-2 * day), true},
		{"marked: at the beginning of the old gap", marked(), epoch.Add(-2*day + ms), false},
		{"marked: at the end of the old gap", marked(), epoch.Add(-day - ms), false},
		{"marked: just after the old gap", marked(), epoch.Add(-day), true},
		{"marked and swept: at the mark", both, horizon, true},
		{"marked and swept: after the mark", both, horizon.Add(ms), false},
		{"marked and swept: after the gap", both, horizon.Add(2 * time.Hour), false},
		{"swept: a sweep holds nothing back", swept(), swept().Sweep.From.Add(-ms), true},
		{"swept: from the sweep on", swept(), swept().Sweep.From.Add(ms), true},
		{"swept: at the horizon", swept(), next, true},
		{"swept: after the horizon", swept(), next.Add(ms), false},
		{"swept: just before the gap", gone, gap.After, true},
		{"swept: at the beginning of the gap", gone, gap.After.Add(ms), false},
		{"swept: at the end of the gap", gone, gap.Before.Add(-ms), false},
		{"swept: just after the gap", gone, gap.Before, true},
		{"never seen before: everything is left", never, epoch.Add(-365 * day), false},
		{"never seen before: even what is now", never, epoch, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.deliver, test.state.Deliver(test.sent))
		})
	}
}
