package bench_test

import (
	"testing"

	"github.com/fanmail/fanmail/pkg/message"
)

const followers = 100_000

// BenchmarkFanoutOne delivers one message to 100,000 active followers.
func BenchmarkFanoutOne(b *testing.B) { benchmarkFanout(b, 1, "celebrity") }

// BenchmarkFanoutBurst delivers 20 messages by two authors to the same 100,000 active followers.
func BenchmarkFanoutBurst(b *testing.B) { benchmarkFanout(b, 20, "celebrity-1", "celebrity-2") }

func benchmarkFanout(b *testing.B, messages int, authors ...message.UserID) {
	b.Helper()
	p := newPipeline(b)
	p.populate(b, followers, authors...)
	raw := rawWrites(b, followers*messages)
	var delivered int64
	b.ResetTimer()
	for b.Loop() {
		delivered += p.await(b, p.publish(b, messages, authors...))
	}
	rate := float64(delivered) / b.Elapsed().Seconds()
	b.ReportMetric(rate, "deliveries/s")
	b.ReportMetric(raw, "raw-writes/s")
	b.ReportMetric(rate/raw, "of-raw")
	b.ReportMetric(0, "ns/op")
}
