package browser_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

// patient is a message store whose messages cannot be read while broken is set, and are read slowly while slow is.
type patient struct {
	message.Store
	broken, slow *atomic.Bool
}

func (p patient) GetMany(ctx context.Context, refs []message.Ref) ([]message.Found, error) {
	if p.slow.Load() {
		time.Sleep(time.Second)
	}
	found, err := p.Store.GetMany(ctx, refs)
	for i := range found {
		if p.broken.Load() {
			found[i] = message.Found{Err: fmt.Errorf("message %s: %w", refs[i].ID, message.ErrCorrupt)}
		}
	}
	return found, err
}
