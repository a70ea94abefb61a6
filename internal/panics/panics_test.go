package panics_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var errOrdinary = errors.New("ordinary")

func panicsWith(value any) error {
	return panics.Do(func() error { panic(value) })
}

func TestDo(t *testing.T) {
	t.Parallel()
	require.NoError(t, panics.Do(func() error { return nil }))
	require.Equal(t, errOrdinary, panics.Do(func() error { return errOrdinary }))
	for value, text := range map[any]string{"text": "panic: text", 7: "panic: 7", io.EOF: "panic: EOF"} {
		err := panicsWith(value)
		require.EqualError(t, err, text)
		require.True(t, panics.Is(fmt.Errorf("wrapped: %w", err)))
		var caught *panics.Error
		require.ErrorAs(t, err, &caught)
		require.Equal(t, value, caught.Value)
		require.Contains(t, string(caught.Stack), "panicsWith")
	}
	require.NotErrorIs(t, panicsWith(io.EOF), io.EOF)
	require.True(t, panics.Is(panicsWith(nil)))
	require.False(t, panics.Is(errOrdinary))
	require.False(t, panics.Is(nil))
}

// The end of a goroutine is not a panic.
func TestGoexit(t *testing.T) {
	t.Parallel()
	err, ended := errOrdinary, make(chan struct{})
	go func() {
		defer close(ended)
		err = panics.Do(func() error {
			runtime.Goexit()
			return nil
		})
	}()
	<-ended
	require.Equal(t, errOrdinary, err)
}

func TestRecord(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	registry := prometheus.NewRegistry()
	r := panics.NewRecorder(zerolog.New(&log), registry, "kitchen")
	panics.NewRecorder(zerolog.Nop(), registry, "cellar")
	describe := func(line *zerolog.Event) *zerolog.Event { return line.Str("user", "ann") }
	r.Record(nil, describe)
	r.Record(errOrdinary, describe)
	require.Empty(t, log.String())
	err := panicsWith("a pan is hot")
	r.Record(fmt.Errorf("cook: %w", err), describe)
	for _, part := range []string{`"error":"cook: panic: a pan is hot"`, `"user":"ann"`, `"place":"kitchen"`, "panicsWith"} {
		require.Contains(t, log.String(), part)
	}
	log.Reset()
	r.Record(err, describe) // again
	require.Empty(t, log.String())
	families, gathered := registry.Gather()
	require.NoError(t, gathered)
	require.Len(t, families, 1)
	require.Equal(t, "fanmail_panics_total", families[0].GetName())
	counts := make(map[string]float64)
	for _, m := range families[0].GetMetric() {
		counts[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
	}
	require.Equal(t, map[string]float64{"kitchen": 1, "cellar": 0}, counts)
}
