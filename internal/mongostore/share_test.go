package mongostore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/mongostore"
	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/message"
)

// callers is the key of a value that the contexts of callers have.
type callers struct{}

// TestShared lets callers come while a run is under way: they share the next one. One of them goes away before it begins.
func TestShared(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	for name, test := range map[string]struct {
		second func() error
		fails  func(t *testing.T, err error)
	}{
		"a result": {func() error { return nil }, func(t *testing.T, err error) { t.Helper(); require.NoError(t, err) }},
		"an error": {func() error { return refused }, func(t *testing.T, err error) { t.Helper(); require.ErrorIs(t, err, refused) }},
		"a panic":  {func() error { panic("broken") }, func(t *testing.T, err error) { t.Helper(); require.True(t, panics.Is(err)) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				runs, step := 0, make(chan struct{})
				do := mongostore.Shared(func(ctx context.Context) (id message.ID, err error) {
					assert.Nil(t, ctx.Value(callers{}), "it is the run of no caller")
					runs++
					id = messagetest.ID(runs)
					if <-step; runs == 2 {
						err = test.second()
					}
					return id, err
				})
				type answer struct {
					id  message.ID
					err error
				}
				first, others, gone := make(chan answer, 1), make(chan answer, 3), make(chan answer, 1)
				ask := func(ctx context.Context, into chan answer) {
					go func() {
						id, err := do(context.WithValue(ctx, callers{}, true))
						into <- answer{id, err}
					}()
					synctest.Wait()
				}
				leaving, leave := context.WithCancel(t.Context())
				ask(t.Context(), first)
				ask(leaving, gone)
				for range cap(others) {
					ask(t.Context(), others)
				}
				leave()
				require.ErrorIs(t, (<-gone).err, context.Canceled)
				step <- struct{}{}
				require.Equal(t, answer{messagetest.ID(1), nil}, <-first)
				synctest.Wait()
				require.Empty(t, others, "a run that began before their calls does not answer them")
				step <- struct{}{}
				for range cap(others) {
					got := <-others
					test.fails(t, got.err)
					require.Equal(t, got.err != nil && panics.Is(got.err), got.id.IsZero())
				}
				require.Equal(t, 2, runs)
				ask(t.Context(), first)
				step <- struct{}{}
				require.Equal(t, answer{messagetest.ID(3), nil}, <-first, "one that comes later gets a run of its own")
			})
		})
	}
}
