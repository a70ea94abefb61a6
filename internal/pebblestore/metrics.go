package pebblestore

import (
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

var (
	sizeDesc   = prometheus.NewDesc("fanmail_embedded_size_bytes", "How much of the disk the embedded store takes.", nil, nil)
	debtDesc   = prometheus.NewDesc("fanmail_embedded_compaction_debt_bytes", "How much the embedded store has yet to merge.", nil, nil)
	layersDesc = prometheus.NewDesc("fanmail_embedded_unmerged_layers", "Layers of files of the embedded store that have not been merged yet.", nil, nil)
	ingestDesc = prometheus.NewDesc("fanmail_embedded_ingests_total", "How often the embedded store took over sorted files of large pushes.", nil, nil)
	hitsDesc   = prometheus.NewDesc("fanmail_embedded_cache_hits_total", "Blocks that were found in the cache of the embedded store.", nil, nil)
	missesDesc = prometheus.NewDesc("fanmail_embedded_cache_misses_total", "Blocks that had to be read from a file of the embedded store.", nil, nil)
	stallsDesc = prometheus.NewDesc("fanmail_embedded_write_stalls_total", "How often all writes had to wait for the embedded store to catch up.", nil, nil)
	stallDesc  = prometheus.NewDesc("fanmail_embedded_write_stall_seconds_total", "For how long all writes have waited for the embedded store to catch up.", nil, nil)
)

// collect sends the metrics that a scrape reads from Pebble. It sends none when the store is closed.
func (db *DB) collect(collected chan<- prometheus.Metric) {
	if db.enter() != nil {
		return
	}
	defer db.leave()
	m := db.engine.Metrics()
	stalls, stalled := db.stalls.total()
	for _, metric := range []struct {
		desc  *prometheus.Desc
		kind  prometheus.ValueType
		value float64
	}{
		{sizeDesc, prometheus.GaugeValue, float64(m.DiskSpaceUsage())},
		{debtDesc, prometheus.GaugeValue, float64(m.Compact.EstimatedDebt)},
		{layersDesc, prometheus.GaugeValue, float64(m.Levels[0].Sublevels)},
		{ingestDesc, prometheus.CounterValue, float64(m.Ingest.Count)},
		{hitsDesc, prometheus.CounterValue, float64(m.BlockCache.Hits)},
		{missesDesc, prometheus.CounterValue, float64(m.BlockCache.Misses)},
		{stallsDesc, prometheus.CounterValue, float64(stalls)},
		{stallDesc, prometheus.CounterValue, stalled.Seconds()},
	} {
		collected <- prometheus.MustNewConstMetric(metric.desc, metric.kind, metric.value)
	}
}

// Written returns the bytes that were written to the log, by flushes and by compactions since the store was opened, or zeros when it is closed.
func (db *DB) Written() (log, flushed, compacted uint64) {
	if db.enter() != nil {
		return 0, 0, 0
	}
	defer db.leave()
	m := db.engine.Metrics()
	for i := range m.Levels {
		flushed += m.Levels[i].TableBytesFlushed
		compacted += m.Levels[i].TableBytesCompacted
	}
	return m.WAL.BytesWritten, flushed, compacted
}

// stalls counts, measures and logs the times in which Pebble stops all writes. It is safe for concurrent use.
type stalls struct {
	log zerolog.Logger
	now func() time.Time

	mu     sync.Mutex
	since  time.Time // the beginning of the present stall; zero if there is none
	ended  time.Duration
	number int
}

func newStalls(log zerolog.Logger) *stalls {
	return &stalls{log: log, now: time.Now} //nolint:forbidigo // stalls are measured by the system's clock; the injected clock stamps messages
}

func (s *stalls) begin(info pebble.WriteStallBeginInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	s.since = s.now()
	s.log.Info().Str("reason", info.Reason).Msg("writes wait for the store to catch up")
}

func (s *stalls) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended += s.now().Sub(s.since)
	s.since = time.Time{}
	s.log.Info().Msg("writes go on")
}

// total returns the number of stalls and their total duration, including the present stall.
func (s *stalls) total() (number int, waited time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waited = s.ended
	if !s.since.IsZero() {
		waited += s.now().Sub(s.since)
	}
	return s.number, waited
}
