package pebblestore

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/rs/zerolog"
)

// engineLogger passes Pebble's log lines to zerolog.
type engineLogger struct{ log zerolog.Logger }

// Infof implements pebble.Logger. Pebble's information helps only to debug Pebble, so its level is debug.
func (l engineLogger) Infof(format string, args ...any) { l.log.Debug().Msgf(format, args...) }

// Errorf implements pebble.Logger.
func (l engineLogger) Errorf(format string, args ...any) { l.log.Error().Msgf(format, args...) }

// Fatalf implements pebble.Logger. Pebble calls it when it cannot continue without risking acknowledged data, for example after a
// failed sync of its log. The caller holds locks of Pebble, so Fatalf must not return, and no caller may recover: it ends the process by
// a panic of a goroutine of its own. The log has the stack of the caller.
func (l engineLogger) Fatalf(format string, args ...any) {
	reason := fmt.Sprintf(format, args...)
	l.log.Error().Str("reason", reason).Bytes("stack", debug.Stack()).Msg("the store cannot go on")
	go panic("pebblestore: " + reason)
	select {} // until the process has ended
}

// events returns the listener for the events that an operator must know.
func events(log zerolog.Logger, files *files, stalls *stalls) *pebble.EventListener {
	failures := log.Sample(&zerolog.BurstSampler{Burst: 1, Period: time.Minute})
	return &pebble.EventListener{
		BackgroundError: func(err error) { // the caller holds the lock of the engine
			files.failed.Store(true)
			failures.Error().Err(err).Msg("the store failed to write in the background: is the disk full?")
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			log.Error().Err(info.Details).Str("path", info.Path).Msg("a file of the store is damaged")
		},
		DiskSlow: func(info pebble.DiskSlowInfo) {
			log.Warn().Str("path", info.Path).Stringer("took", info.Duration.Round(time.Millisecond)).Msg("the disk is slow")
		},
		LowDiskSpace: func(info pebble.LowDiskSpaceInfo) {
			log.Warn().Uint64("available_bytes", info.AvailBytes).Msg("the disk is nearly full")
		},
		WriteStallBegin: stalls.begin,
		WriteStallEnd:   stalls.end,
	}
}
