package settings_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/pkg/attribute"
)

// TestDeclaring checks that a number is never given again, not to the same name either, and that a change of a setting keeps the declarations.
func TestDeclaring(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.process(t, "a", nil), w.process(t, "b", nil)
	declare := func(name string, as attribute.Type) {
		declared, err := a.Declare(t.Context(), name, as)
		require.NoError(t, err)
		require.True(t, declared)
	}
	declare("total", attribute.Number)
	declare("due", attribute.Time)
	declared, err := b.Declare(t.Context(), "due", attribute.Time)
	require.NoError(t, err)
	require.False(t, declared)
	require.Equal(t, 2, b.Current.Attributes().Greatest(), "who finds a declaration uses it")
	_, err = b.Declare(t.Context(), "due", attribute.Bool)
	require.Equal(t, &settings.TypeError{Declared: attribute.Declaration{Name: "due", Type: attribute.Time, Number: 2}}, err)
	for _, there := range []bool{true, false} {
		removed, err := a.Undeclare(t.Context(), "due")
		require.NoError(t, err)
		require.Equal(t, there, removed)
	}
	require.Equal(t, 2, a.Current.Attributes().Greatest())
	_, found := b.Current.Attributes().Find("due")
	require.True(t, found, "until it reads the record again")
	b.change(t, "dormant_after", "60d")
	declare("due", attribute.Bool)
	for _, p := range []process{a, w.process(t, "c", nil)} {
		all, err := p.Service.Attributes(t.Context())
		require.NoError(t, err)
		require.Equal(t, []attribute.Declaration{{Name: "due", Type: attribute.Bool, Number: 3}, {Name: "total", Type: attribute.Number, Number: 1}}, all)
	}
	_, err = a.Attribute(t.Context(), "none")
	require.ErrorIs(t, err, settings.ErrNotDeclared)
}

// TestDeclaringByMany has processes declare attributes of their own at the same time: each gets a number of its own.
func TestDeclaringByMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const processes = attribute.Max / 4
	var group errgroup.Group
	for i := range processes {
		p := w.process(t, strconv.Itoa(i), nil)
		group.Go(func() error {
			for n := range 4 {
				if _, err := p.Declare(t.Context(), fmt.Sprintf("a%d-%d", i, n), attribute.Number); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	all, err := w.process(t, "last", nil).Service.Attributes(t.Context())
	require.NoError(t, err)
	numbers := make(map[int]bool)
	for _, d := range all {
		numbers[d.Number] = true
	}
	require.Len(t, numbers, attribute.Max)
	require.True(t, numbers[1] && numbers[attribute.Max])
}
