package tally_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/tally"
	"github.com/fanmail/fanmail/pkg/event"
)

// TestNumbers sets each number alone, so that none is left out of a record, a sum or a Tally, and none is there twice.
func TestNumbers(t *testing.T) {
	t.Parallel()
	fields := reflect.TypeFor[tally.Counters]().Size() / reflect.TypeFor[int64]().Size()
	var all tally.Counters
	for i := range int(fields) {
		list := make([]int64, i+1)
		list[i] = int64(i + 1)
		one := tally.Of(list)
		require.NotZero(t, one)
		require.Equal(t, list, one.Numbers())
		require.Equal(t, all, all.Max(one).Minus(one))
		all = all.Plus(one)
		require.Equal(t, all, all.Max(one))
	}
	require.Equal(t, [...]int64{10, 11, 12}, [...]int64{all.Finished.Direct, all.Finished.Medium, all.Finished.Bulk})
	require.Equal(t, int64(11), *all.Finished.In(event.Medium))
	require.Equal(t, int64(1), all.Accepted)
	require.Equal(t, []int64{}, tally.Counters{}.Numbers())
	require.Equal(t, all, tally.Of(append(all.Numbers(), 7)), "a number of a later release")

	var counted tally.Tally
	counted.Add(all)
	counted.Add(all)
	require.Equal(t, all.Plus(all), counted.Read())
	(*tally.Tally)(nil).Add(all)
	require.Zero(t, (*tally.Tally)(nil).Read())
}

func TestStep(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, end := range tally.Ends {
		require.Equal(t, i, tally.Step(now.Add(-end), now))
		require.Equal(t, i+1, tally.Step(now.Add(-end-1), now))
	}
	require.Zero(t, tally.Step(now.Add(time.Second), now), "it looked after that")
	require.Equal(t, len(tally.Ends), tally.Step(time.Time{}, now), "never")
	var counted tally.Tally
	counted.Returned(now.Add(-48*time.Hour), now)
	require.Equal(t, tally.Steps{3: 1}, counted.Read().Returned)
}
