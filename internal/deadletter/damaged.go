package deadletter

import (
	"context"
	"errors"
	"fmt"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// ErrDamaged means that records of the user of a dead letter are still damaged. Restore or remove them, and redrive again.
var ErrDamaged = errors.New("records of the user are still damaged")

// deliverMissed makes a rehydration due that delivers what a damaged user missed, and then removes the letter. The debt is durable before
// the letter is gone, so a crash in between loses nothing. Fan-out skips the user only while there is a letter. It has read the user's
// records before it looks for the letter. So all that it skipped because of this letter was stored before the user was sound again, and
// the rehydration finds it.
func (s *Service) deliverMissed(ctx context.Context, filed event.Filed) error {
	d, err := event.DecodeDamaged(filed.Payload)
	if err != nil {
		return fmt.Errorf("redrive a damaged user: %w: %w", ErrNoConsumer, err)
	}
	err = s.oweMissed(ctx, d)
	if errors.Is(err, message.ErrCorrupt) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return fmt.Errorf("redrive to %s: %w", d.User, err)
	}
	if err := s.Bus.Drop(ctx, filed.ID); err != nil {
		return ofBus(err)
	}
	s.log(filed).Str("user", string(d.User)).Time("since", d.Since).Msg("a rehydration delivers what a damaged user missed")
	return nil
}

// oweMissed leaves a sweep on the user, unless the user has no record: then a rehydration finds everything when the user returns.
func (s *Service) oweMissed(ctx context.Context, d event.Damaged) error {
	st, err := userstate.Get(ctx, s.Users, d.User)
	if err != nil {
		return err
	}
	if err := bucket.Check(ctx, s.Buckets, d.User); err != nil {
		return err
	}
	rules := s.opts.Rules()
	from := d.Since.Add(-rules.ClockTolerance - rules.PublishSlack)
	for {
		next, owed := st.OweFrom(from, s.opts.Now())
		if !owed {
			return nil
		}
		stepped, err := s.Users.Step(ctx, []userstate.Step{{From: st, To: next}})
		if err != nil || stepped[0].Applied {
			return err
		}
		st = stepped[0].State
	}
}
