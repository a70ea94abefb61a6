package natsbus_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/pkg/event"
)

// BenchmarkRoundTrip sends a single task through an idle bus: emit, take, done.
func BenchmarkRoundTrip(b *testing.B) {
	bus := newBus(b, natsbus.Options{})
	one := tasks(event.Medium, 0, 0, 1)
	for b.Loop() {
		require.NoError(b, bus.EmitTasks(b.Context(), one))
		held, err := bus.Take(b.Context(), event.Medium, 0)
		require.NoError(b, err)
		require.NoError(b, held.Done(b.Context()))
	}
}

// BenchmarkBatches takes 1,000 waiting tasks of one lane and partition in batches of 256.
func BenchmarkBatches(b *testing.B) {
	const waiting, batch = 1000, 256
	bus := newBus(b, natsbus.Options{})
	all := tasks(event.Bulk, 0, 0, waiting)
	for b.Loop() {
		b.StopTimer()
		require.NoError(b, bus.EmitTasks(b.Context(), all))
		b.StartTimer()
		for handled := 0; handled < waiting; {
			held, err := bus.Take(b.Context(), event.Bulk, 0)
			require.NoError(b, err)
			behind, err := held.Waiting(b.Context(), batch-1)
			require.NoError(b, err)
			require.NoError(b, held.Remove(b.Context(), behind))
			require.NoError(b, held.Done(b.Context()))
			handled += 1 + len(behind)
		}
	}
	b.ReportMetric(waiting*float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}

// BenchmarkEmit emits tasks, 256 per call.
func BenchmarkEmit(b *testing.B) {
	bus := newBus(b, natsbus.Options{})
	batch := tasks(event.Bulk, 0, 0, 256)
	for b.Loop() {
		require.NoError(b, bus.EmitTasks(b.Context(), batch))
	}
	b.ReportMetric(256*float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}
