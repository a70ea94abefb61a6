package userstate

import (
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

// Rules are the values that all processes on one store share. From a user's State they decide whether fan-out delivers to the user, and
// from the times of a message whether the message is void.
//
// Rules may change while a process runs. An operation reads them once, at its beginning, and uses that value until its end.
type Rules struct {
	// DormantAfter is how long an inbox is kept warm after its owner last looked.
	DormantAfter time.Duration
	// ClockTolerance is twice the greatest difference between the clocks of two hosts. It is above 0.
	ClockTolerance time.Duration
	// PublishSlack is how long after it was sent a message may become visible. A message that is stored later is void, and so is a
	// message whose time is more than ClockTolerance after the store's clock. An edge becomes visible within PublishSlack after a
	// span of it began or ended.
	PublishSlack time.Duration
}

// DefaultRules keeps inboxes warm for 30 days, allows clocks to differ by a minute, and gives a message two minutes to be stored.
func DefaultRules() Rules {
	return Rules{DormantAfter: 30 * 24 * time.Hour, ClockTolerance: 2 * time.Minute, PublishSlack: 2 * time.Minute}
}

// raiseParts says how much a view must raise the horizon of an active user: one part in so many of DormantAfter. So an active user
// raises it about once a day, and leaves a debt as often.
const raiseParts = 32

// View returns the conditional update of a user who views the inbox at the given time. It applies if the user is active now and the
// horizon need not rise. Otherwise Arrive says what the view changes.
func (r Rules) View(user message.UserID, at, now time.Time) View {
	v := View{User: user, At: at, Beyond: now.Add(r.ClockTolerance)}
	if enough := at.UTC().Truncate(time.Millisecond).Add(r.DormantAfter - r.DormantAfter/raiseParts); enough.After(v.Beyond) {
		v.Beyond = enough
	}
	return v
}

// Noted reports whether a page view changes nothing, so it need not be recorded: the user is active, the horizon need not rise, nothing is to be
// rebuilt, and a view was recorded less than every before, or less than the part of DormantAfter by which horizons rise.
func (r Rules) Noted(s State, now time.Time, every time.Duration) bool {
	return s.Known() && s.Mark == nil && r.View(s.User, now, now).Applies(s) && now.Sub(s.LastViewed) < min(every, r.DormantAfter/raiseParts)
}

// Active reports whether the user's inbox is kept warm for messages sent now, with ClockTolerance to spare.
func (r Rules) Active(s State, now time.Time) bool {
	return now.Before(s.Horizon.Add(-r.ClockTolerance))
}

// Dead returns which leases are dead now, with ClockTolerance to spare.
func (r Rules) Dead(now time.Time) Dead {
	return Dead{Before: now, After: now.Add(MaxLease + r.ClockTolerance)}
}

// Timing returns the bounds by which a store decides whether a message is void.
func (r Rules) Timing() message.Timing {
	return message.Timing{Slack: r.PublishSlack, Tolerance: r.ClockTolerance}
}
