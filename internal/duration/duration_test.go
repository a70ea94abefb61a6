package duration_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/duration"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"30d": 720 * time.Hour, "0d": 0, "720h": 720 * time.Hour, "1h30m": 90 * time.Minute, "106751d": 106751 * 24 * time.Hour,
	} {
		got, err := duration.Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "d", "30", "1.5d", "-1d", "1d12h", "106752d", "30D"} {
		_, err := duration.Parse(text)
		require.ErrorContains(t, err, "is not a duration such as 500ms, 30s, 5m, 720h or 30d", text)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for text, d := range map[string]time.Duration{
		"720h": 720 * time.Hour, "1h30m": 90 * time.Minute, "1h0m1s": time.Hour + time.Second, "2m": 2 * time.Minute, "0s": 0, "1.5s": 1500 * time.Millisecond,
	} {
		require.Equal(t, text, duration.Text(d))
		got, err := duration.Parse(text)
		require.NoError(t, err)
		require.Equal(t, d, got)
	}
}

// A flag takes what a setting takes, and keeps its value if the text is wrong.
func TestValue(t *testing.T) {
	t.Parallel()
	d := time.Minute
	v := (*duration.Value)(&d)
	require.Equal(t, "1m", v.String())
	require.NoError(t, v.Set("30d"))
	require.Equal(t, 720*time.Hour, d)
	require.ErrorContains(t, v.Set("30"), "is not a duration such as")
	require.Equal(t, "720h", v.String())
}
