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
	users  prometheus.Counter // those that are left out
}

func newDamaged(logger zerolog.Logger, registerer prometheus.Registerer) damaged {
	return damaged{
		logger: logger.Sample(&zerolog.BurstSampler{Burst: damagedBurst, Period: damagedPeriod}),
		users: promauto.With(registerer).NewCounter(prometheus.CounterOpts{
			Name: "fanmail_inbox_damaged_total", Help: "Inboxes that were to be counted, and that an answer leaves out because they are damaged.",
		}),
	}
}

// user tells of a user whose inbox is not counted.
func (d damaged) user(err error, user message.UserID) {
	d.users.Inc()
	d.logger.Error().Err(err).Str("user", string(user)).Msg("records of a user are damaged: their inbox is not counted")
}
