package app

import (
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/config"
)

// roomEvery is the interval between two checks of the disk. A busy server writes some tens of MiB in it.
const roomEvery = time.Second

// room checks whether the disk of an embedded store has space for more data. It is safe for concurrent use.
type room struct {
	available func() (bytes uint64, err error)
	least     config.Size
	now       func() time.Time
	logger    zerolog.Logger

	mu     sync.Mutex
	looked time.Time
	left   uint64
	full   bool // messages and edges are refused
	paused bool // bulk deliveries wait
}

// check returns an error if less than least is free. That still leaves space to deliver the accepted messages.
func (r *room) check() error {
	if left, full, _ := r.look(); full {
		return fmt.Errorf("the disk has %d MiB left, which is less than embedded.min_free", left>>20)
	}
	return nil
}

// bulk reports whether half of least is free. The other half is for direct messages, logins and the store itself. A nil room has no limit.
func (r *room) bulk() bool {
	if r == nil {
		return true
	}
	_, _, paused := r.look()
	return !paused
}

// look checks the disk at most once per roomEvery.
func (r *room) look() (left uint64, full, paused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if since := now.Sub(r.looked); !r.looked.IsZero() && since >= 0 && since < roomEvery {
		return r.left, r.full, r.paused
	}
	r.looked = now
	available, err := r.available()
	if err != nil { // if the disk is full, the write itself fails
		r.logger.Warn().Err(err).Msg("cannot tell how full the disk is")
		return r.left, r.full, r.paused
	}
	r.left = available
	switch begins, ends := r.changes(&r.full, r.least); {
	case begins:
		r.logger.Error().Uint64("available_bytes", available).Int64("min_free_bytes", int64(r.least)).
			Msg("the disk is nearly full: messages and edges are refused until there is room")
	case ends:
		r.logger.Info().Uint64("available_bytes", available).Msg("the disk has room: messages and edges are taken again")
	}
	switch begins, ends := r.changes(&r.paused, r.least/2); {
	case begins:
		r.logger.Error().Uint64("available_bytes", available).Int64("min_free_bytes", int64(r.least)).
			Msg("the disk is nearly full: bulk deliveries wait until there is room")
	case ends:
		r.logger.Info().Uint64("available_bytes", available).Msg("the disk has room: bulk deliveries go on")
	}
	return r.left, r.full, r.paused
}

// changes sets below to whether less than least is left, and reports a change.
func (r *room) changes(below *bool, least config.Size) (begins, ends bool) {
	was := *below
	*below = r.left < uint64(least) //nolint:gosec // a size is never negative
	return !was && *below, was && !*below
}
