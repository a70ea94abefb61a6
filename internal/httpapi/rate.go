package httpapi

import (
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/fanmail/fanmail/pkg/client"
)

// Rate is a limit for each sender or each address.
type Rate struct {
	// PerSecond is the average number per second; 0 means no limit.
	PerSecond int
	// Burst is the maximum number at once; 0 means one.
	Burst int
}

// maxLimited is the number of senders or addresses whose rate is kept. A sender that drops out may burst again.
const maxLimited = 65_536

// limiter limits the rate of each key. A nil limiter has no limit.
type limiter struct {
	rate Rate
	now  func() time.Time
	keys *lru.Cache[string, *rate.Limiter]
}

func newLimiter(r Rate, now func() time.Time) *limiter {
	if r.PerSecond == 0 {
		return nil
	}
	keys, err := lru.New[string, *rate.Limiter](maxLimited)
	if err != nil {
		panic(err) // it fails for sizes that are not positive
	}
	return &limiter{rate: r, now: now, keys: keys}
}

// take counts one message or request of a key. If the key is over its rate, it returns a problem with the time to wait.
func (l *limiter) take(key, what string) error {
	if l == nil {
		return nil
	}
	of, ok := l.keys.Get(key)
	if !ok {
		of = rate.NewLimiter(rate.Limit(l.rate.PerSecond), max(l.rate.Burst, 1))
		if before, there, _ := l.keys.PeekOrAdd(key, of); there {
			of = before
		}
	}
	now := l.now()
	reservation := of.ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait == 0 {
		return nil
	}
	reservation.CancelAt(now)
	p := newProblem(client.ProblemRateLimited, "", "this "+what+" sends more than it may: try again after Retry-After")
	p.RetryAfter = wait
	return p
}

// addressKey returns the limiter key of a remote address. For an IPv6 address it is the /64 network, because one subscriber has the
// whole network.
func addressKey(remote string) string {
	const network = 64
	address, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	ip := address.Addr().Unmap().WithZone("")
	if ip.Is6() {
		if prefix, err := ip.Prefix(network); err == nil {
			return prefix.String()
		}
	}
	return ip.String()
}
