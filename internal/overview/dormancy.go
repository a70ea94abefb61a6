package overview

import (
	"context"
	"strconv"
	"time"

	"github.com/fanmail/fanmail/internal/duration"
	"github.com/fanmail/fanmail/internal/tally"
	"github.com/fanmail/fanmail/pkg/client"
)

// Dormancy returns what dormancy saves. Its users are those of the last round that has ended.
func (s *Service) Dormancy(ctx context.Context) (client.Dormancy, error) {
	round, err := s.sources.Round(ctx)
	if err != nil {
		return client.Dormancy{}, err
	}
	_, _, totals := s.sources.Rows()
	d := client.Dormancy{Skipped: skipped(totals), Rebuilt: rebuilt(totals), If: others(totals)}
	if round.Counts() {
		d.Users = &client.DormancyUsers{Active: round.Counted.Active, Dormant: round.Counted.Dormant, About: true}
	}
	return d, nil
}

func skipped(t tally.Counters) client.Skipped {
	return client.Skipped{Dormant: t.Skipped.Dormant, NeverSeen: t.Skipped.NeverSeen, Blocked: t.Skipped.Blocked, Bytes: t.Skipped.Bytes, About: true}
}

func rebuilt(t tally.Counters) client.Rebuilt {
	return client.Rebuilt{Users: t.RebuiltUsers, Messages: t.RebuiltMessages, About: true}
}

// others returns what would have been with other values of dormant_after: the ends of the steps, and none. A copy would have been made if its
// recipient had been away for at most so long, and a return would have been that of a dormant user after a longer time.
func others(t tally.Counters) []client.DormancyIf {
	var copies, rebuilds int64
	for _, n := range t.Returned {
		rebuilds += n
	}
	list := make([]client.DormancyIf, len(t.Away))
	for i := range list {
		copies += t.Away[i]
		rebuilds -= t.Returned[i]
		after := "never"
		if i < len(tally.Ends) {
			after = days(tally.Ends[i])
		}
		list[i] = client.DormancyIf{DormantAfter: after, Copies: copies, Rebuilds: rebuilds, About: true}
	}
	return list
}

// days writes a duration as a value of dormant_after: in days, if it is some.
func days(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return strconv.Itoa(int(d/day)) + "d"
	}
	return duration.Text(d)
}
