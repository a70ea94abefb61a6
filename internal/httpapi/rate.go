package httpapi

import (
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/fanmail/fanmail/pkg/client"
)

// Rate is how much is accepted of one sender or one address.
type Rate struct {
	// PerSecond is how many are accepted in a second in the long run; 0 means any number.
	PerSecond int
	// Burst is how many may come at once; 0 means one.
	Burst int
}

// maxLimited is of how many senders or addresses the rate is known at a time. Whoever was forgotten may burst again.
const maxLimited = 65_536

// limiter bounds rates, each key's on its own. A nil limiter bounds nothing.
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

// take takes one of what a key has left, or returns the problem that says when there will be one.
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

// addressKey returns what the rate of a remote address is kept under. Of an IPv6 address that is the network, of which one
// subscriber has all the addresses.
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
