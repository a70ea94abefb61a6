package userstate_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/userstate"
)

func TestRetentionWithin(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, c := range []struct{ own, deployment, want userstate.Retention }{
		{},
		{own: userstate.Retention{MaxAge: day, Newest: 5}, want: userstate.Retention{MaxAge: day, Newest: 5}},
		{deployment: userstate.Retention{MaxAge: day, Newest: 5}, want: userstate.Retention{MaxAge: day, Newest: 5}},
		{
			own: userstate.Retention{MaxAge: day, Newest: 9}, deployment: userstate.Retention{MaxAge: 2 * day, Newest: 5},
			want: userstate.Retention{MaxAge: day, Newest: 9},
		},
		{own: userstate.Retention{MaxAge: 2 * day}, deployment: userstate.Retention{MaxAge: day}, want: userstate.Retention{MaxAge: day}},
	} {
		require.Equal(t, c.want, c.own.Within(c.deployment), "%+v", c)
	}
}
