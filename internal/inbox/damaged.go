package inbox

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// damagedBurst and damagedPeriod limit how often damage is logged: clients may ask for the same records every second.
	damagedBurst  = 10
	damagedPeriod = 10 * time.Second
)

// damaged tells of damaged records that fail no request.
type damaged struct {
	logger zerolog.Logger
	// users and messages count what is left out.
	users, messages prometheus.Counter
}

func newDamaged(logger zerolog.Logger, registerer prometheus.Registerer) damaged {
	found := promauto.With(registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "fanmail_inbox_damaged_total",
		Help: "Damaged records that an answer leaves out: inboxes that were to be counted, and messages of a page, without which it does not say whom they are for.",
	}, []string{"record"})
	return damaged{
		logger: logger.Sample(&zerolog.BurstSampler{Burst: damagedBurst, Period: damagedPeriod}),
		users:  found.WithLabelValues("inbox"), messages: found.WithLabelValues("message"),
	}
}

// user tells of a user whose inbox is not counted.
func (d damaged) user(err error, user message.UserID) {
	d.users.Inc()
	d.logger.Error().Err(err).Str("user", string(user)).Msg("records of a user are damaged: their inbox is not counted")
}

// message tells of a message of which a page does not say whom it is for.
func (d damaged) message(err error, id message.ID) {
	d.messages.Inc()
	d.logger.Error().Err(err).Stringer("message_id", id).Msg("a message is damaged: pages do not say whom it is for")
}
