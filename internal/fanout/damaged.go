package fanout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// damage is what a pass missed because the records of one owner are damaged.
type damage struct {
	missed event.Damaged
	cause  error
}

// isDamaged reports whether an error says that a stored record is damaged.
func isDamaged(err error) bool { return errors.Is(err, message.ErrCorrupt) }

// skipDamaged skips an owner, whose records are damaged as cause says.
func (p *pass) skipDamaged(owner message.UserID, j *job, cause error) {
	j.counts.Skipped++
	p.metrics.skipped[skipDamaged].Inc()
	p.noteDamaged(owner, j, cause)
}

// noteDamaged notes that a job misses an owner because of damage.
func (p *pass) noteDamaged(owner message.UserID, j *job, cause error) {
	d := damage{missed: event.NewDamaged(owner, j.message.Sent()), cause: cause}
	if before, ok := p.damaged[owner]; ok {
		d.missed = before.missed.With(d.missed)
	}
	if p.damaged == nil {
		p.damaged = make(map[message.UserID]damage)
	}
	p.damaged[owner] = d
}

// fileDamaged files a dead letter for each owner whom the pass missed because of damage. It runs before the pass is recorded: from then
// on, only the letter says that the owner missed something.
func (p *pass) fileDamaged(ctx context.Context) error {
	for _, owner := range slices.Sorted(maps.Keys(p.damaged)) {
		d := p.damaged[owner]
		filed, err := p.bus.FileDamaged(ctx, d.missed, d.cause.Error())
		if err != nil {
			return fmt.Errorf("dead letter of %s: %w", owner, err)
		}
		if filed {
			p.opts.Logger.Error().Err(d.cause).Str("user", string(owner)).Time("since", d.missed.Since).Str("reason", event.ReasonDamaged).
				Msg("records of a user are damaged: their messages are skipped, and there is a dead letter for them")
		}
	}
	return nil
}
