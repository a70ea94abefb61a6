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
	full   error
}

// check returns an error if less than least is free. That still leaves space to deliver the accepted messages. It checks the disk
// at most once per roomEvery.
func (r *room) check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if since := now.Sub(r.looked); !r.looked.IsZero() && since >= 0 && since < roomEvery {
		return r.full
	}
	r.looked = now
	available, err := r.available()
	if err != nil { // if the disk is full, the write itself fails
		r.logger.Warn().Err(err).Msg("cannot tell how full the disk is")
		return r.full
	}
	was := r.full
	r.full = nil
	if available < uint64(r.least) { //nolint:gosec // a size is never negative
		r.full = fmt.Errorf("the disk has %d MiB left, which is less than embedded.min_free", available>>20)
	}
	switch {
	case was == nil && r.full != nil:
		r.logger.Error().Uint64("available_bytes", available).Int64("min_free_bytes", int64(r.least)).
			Msg("the disk is nearly full: messages and edges are refused until there is room")
	case was != nil && r.full == nil:
		r.logger.Info().Uint64("available_bytes", available).Msg("the disk has room: messages and edges are taken again")
	}
	return r.full
}
