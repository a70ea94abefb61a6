package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// filling are inboxes that another goroutine seems to fill: each pause of the reader delivers something.
type filling struct {
	have map[string][]string
	done bool
}

func (f *filling) counts(_ context.Context, owners []string) ([]int, error) {
	counts := make([]int, len(owners))
	for i, owner := range owners {
		counts[i] = len(f.have[owner])
	}
	return counts, nil
}

func (f *filling) bodies(_ context.Context, owner string) ([]string, error) {
	return f.have[owner], nil
}

func (f *filling) settled(context.Context) (bool, error) { return f.done, nil }

// TestWatch lets one watched inbox lag behind the others, then one that is not watched, then the promise that all is durable.
func TestWatch(t *testing.T) {
	t.Parallel()
	owners := followersOf(1000)
	f := &filling{have: map[string][]string{}}
	give := func(message string, owners ...string) {
		for _, owner := range owners {
			f.have[owner] = append(f.have[owner], message)
		}
	}
	last, unwatched := owners[999], owners[1]
	require.NotContains(t, places(watched, len(owners)), 1)
	steps := []func(){
		func() { give("one", owners[0]) },
		func() { give("one", owners[1:999]...) },
		func() { give("two", owners[0]); give("two", owners[2:999]...) },
		func() { give("one", last); give("two", last) },
		func() { give("two", unwatched) },
		func() { f.done = true },
	}
	clock := time.Unix(0, 0)
	w := watch{
		inboxes: f, messages: 2,
		now: func() time.Time { return clock },
		wait: func(context.Context, time.Duration) error {
			clock = clock.Add(1)
			require.NotEmpty(t, steps, "the reader waits although everything is there")
			steps[0]()
			steps = steps[1:]
			return nil
		},
	}
	seen, err := w.until(t.Context(), owners)
	require.NoError(t, err)
	require.Empty(t, steps, "the reader has waited for everything")
	require.EqualValues(t, 1, seen.First)
	require.EqualValues(t, 6, seen.All)
	require.Len(t, seen.Complete, watched)
	require.EqualValues(t, 3, seen.Complete[0])
	require.EqualValues(t, 4, seen.Complete[watched-1])
}

func TestCount(t *testing.T) {
	t.Parallel()
	owners := followersOf(2500)
	f := &filling{have: map[string][]string{}}
	for _, owner := range owners {
		f.have[owner] = []string{"one", "two"}
	}
	counted, err := count(t.Context(), f, owners, 2)
	require.NoError(t, err)
	require.Equal(t, tally{Found: 5000}, counted)

	f.have[owners[2499]] = []string{"one"}
	f.have[owners[1000]] = []string{"one", "two", "two"}
	counted, err = count(t.Context(), f, owners, 2)
	require.NoError(t, err)
	require.Equal(t, tally{Found: 5000, Missing: 1, Extra: 1}, counted)
}

func TestBodies(t *testing.T) {
	t.Parallel()
	o := options{followers: 3, messages: 2, body: 50}
	owners := followersOf(o.followers)
	f := &filling{have: map[string][]string{}}
	for _, owner := range owners {
		f.have[owner] = []string{newPost(2, o.body).Body, newPost(1, o.body).Body}
	}
	require.NoError(t, checkBodies(t.Context(), f, owners, o))
	require.Len(t, newPost(1, o.body).Body, o.body)

	f.have[owners[2]] = []string{newPost(1, o.body).Body, newPost(1, o.body).Body}
	require.ErrorContains(t, checkBodies(t.Context(), f, owners, o), owners[2])
}
