package bench_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// Each of those who come back follows some of the authors, of whom every stampedeTwice-th has published twice, the others once.
	stampedeAuthors, stampedeFollowed, stampedeTwice = 300, 50, 6
	// connections is how many of them open their inbox at a time, at most.
	connections = 64
)

// BenchmarkStampede has dormant users come back to a server that is fanning out a star's messages to active ones, and then
// reads every inbox: each has to hold exactly what is for its owner.
//
// What fan-out does alone is measured before and after, and the mean is taken: it slows down as inboxes grow, whoever comes back.
//
// They come when they come: what an answer took counts from when its request was due.
func BenchmarkStampede(b *testing.B) {
	world := newStampede(b)
	p := startServer(b, world.dir)
	c, err := client.New(p.url, client.Options{})
	require.NoError(b, err)
	b.Cleanup(c.Close)
	star := &star{client: c}
	before := star.publish(b, after(*alone))

	watch := watchRehydrations(b, p, len(world.users))
	rates := make(chan float64)
	go func() { rates <- star.publish(b, watch.done) }()
	start := time.Now()
	took := world.open(b, p.url, start)
	opened := time.Since(start)
	<-watch.done
	rehydrated := time.Since(start)
	during := <-rates
	afterwards := star.publish(b, after(*alone))

	b.ReportMetric(took.percentile(50), "p50-ms")
	b.ReportMetric(took.percentile(99), "p99-ms")
	b.ReportMetric(took.percentile(100), "max-ms")
	b.ReportMetric(float64(len(world.users))/rehydrated.Seconds(), "rebuilds/s")
	b.ReportMetric((rehydrated - opened).Seconds(), "last-rebuilt-after-s")
	b.ReportMetric(watch.oldest, "oldest-s")
	b.ReportMetric(before, "deliveries/s-before")
	b.ReportMetric(during, "deliveries/s")
	b.ReportMetric(afterwards, "deliveries/s-after")
	b.ReportMetric(2*during/(before+afterwards), "of-alone")
	b.ReportMetric(watch.rss, "rss-MiB")
	b.ReportMetric(0, "ns/op")

	star.verify(b, world.fans)
	world.verify(b, c)
	audited(b, c)
}

// audited has some of the inboxes audited, in which nothing may be found.
func audited(b *testing.B, c *client.Client) {
	b.Helper()
	var users int64
	for line, err := range c.Audit(b.Context(), client.AuditOptions{Sample: 2000}) {
		require.NoError(b, err)
		require.Nil(b, line.Finding)
		if line.Summary != nil {
			users = line.Summary.Users
		}
	}
	b.ReportMetric(float64(users), "audited")
}

// stampede is who comes back, and what they missed.
type stampede struct {
	*archive
	users, fans []message.UserID
	authors     []message.UserID
	messages    []message.Ref // ascending
}

func newStampede(b *testing.B) *stampede {
	b.Helper()
	dormantAfter := config.Default().DormantAfter
	s := &stampede{
		archive: newArchive(b, dormantAfter), authors: named("author", stampedeAuthors),
		users: named("user", sized(*returning)), fans: named("fan", sized(*fans)),
	}
	s.messages = s.publish(b, stampedeAuthors+stampedeAuthors/stampedeTwice, func(n int) message.UserID {
		if n >= stampedeAuthors {
			n = stampedeTwice * (n - stampedeAuthors)
		}
		return s.authors[n]
	})
	s.populate(b, s.users, s.begin.Add(-dormantAfter), s.follows) // all of the messages are after their horizon
	s.populate(b, s.fans, time.Now(), func(int) []message.UserID { return []message.UserID{"star"} })
	require.NoError(b, s.close())
	return s
}

// follows returns the authors that a user follows: those that come after one another from a place of the user's.
func (s *stampede) follows(user int) []message.UserID {
	follows := make([]message.UserID, stampedeFollowed)
	for i := range follows {
		follows[i] = s.authors[(7*user+i)%stampedeAuthors]
	}
	return follows
}

// open opens the inbox of every user, at even distances, and returns how long after it was due each of the pages was there.
func (s *stampede) open(b *testing.B, url string, start time.Time) durations {
	b.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: connections}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport}
	distance := *within / time.Duration(len(s.users))
	took := make(durations, len(s.users))
	var next atomic.Int64
	spread(len(s.users), connections, func() error {
		n := int(next.Add(1) - 1)
		due := start.Add(time.Duration(n) * distance)
		<-time.After(time.Until(due))
		err := s.openOne(c, url, s.users[n])
		took[n] = time.Since(due)
		return err
	})
	return took
}

func (s *stampede) openOne(c *http.Client, url string, user message.UserID) error {
	answer, err := c.Get(url + "/v1/users/" + string(user) + "/inbox?limit=" + strconv.Itoa(page)) //nolint:noctx // the server is next door
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if found := strings.Count(string(text), `"id":`); err == nil && found != page {
		err = fmt.Errorf("first page of %s has %d messages: %s", user, found, text)
	}
	return err
}

// verify requires that every inbox holds exactly what its owner missed.
func (s *stampede) verify(b *testing.B, c *client.Client) {
	b.Helper()
	var next atomic.Int64
	spread(len(s.users), connections, func() error {
		n := int(next.Add(1) - 1)
		follows := s.follows(n)
		var ids []message.ID
		for _, ref := range s.messages {
			if slices.Contains(follows, ref.From) {
				ids = append(ids, ref.ID)
			}
		}
		return holds(b.Context(), c, s.users[n], ids)
	})
}

// rehydrations is what is seen of a server's rehydrations.
type rehydrations struct {
	// done is closed when all that were expected are done.
	done chan struct{}
	// oldest is the most seconds for which one had been due, rss the most memory of the server in MiB. Both can be read when all
	// is done.
	oldest, rss float64
}

// watchRehydrations looks at a server until so many users are rehydrated.
func watchRehydrations(b *testing.B, p *process, users int) *rehydrations {
	b.Helper()
	r := &rehydrations{done: make(chan struct{})}
	var watching sync.WaitGroup
	b.Cleanup(watching.Wait)
	watching.Go(func() {
		defer close(r.done)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			gauges := p.gauges(b)
			r.oldest = max(r.oldest, gauges["fanmail_rehydration_oldest_seconds"])
			r.rss = max(r.rss, p.residentMiB(b))
			if gauges[`fanmail_rehydration_attempts_total{outcome="finished"}`] >= float64(users) {
				return
			}
			select {
			case <-tick.C:
			case <-b.Context().Done(): // the benchmark has failed
				return
			}
		}
	})
	return r
}
