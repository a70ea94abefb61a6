package bench_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// star publishes messages to all fans, a few at a time: the next one as soon as one is delivered.
type star struct {
	client *client.Client
	ids    []message.ID // ascending
}

// underWay is how many of the star's messages are being fanned out at a time.
const underWay = 4

// publish publishes messages until the caller stops it and all are delivered, and returns how many deliveries a second
// there were.
func (s *star) publish(b *testing.B, stop <-chan struct{}) (rate float64) {
	b.Helper()
	start := time.Now()
	var delivered int64
	var mu sync.Mutex
	var publishing sync.WaitGroup
	for range underWay {
		publishing.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				receipt, err := s.client.Publish(b.Context(), message.Draft{
					From: "star", Audience: message.AudienceFollowers, Body: strings.Repeat("x", 200),
				}, "")
				if err != nil {
					panic(err)
				}
				n := s.await(b, receipt.ID)
				mu.Lock()
				s.ids = append(s.ids, receipt.ID)
				delivered += n
				mu.Unlock()
			}
		})
	}
	publishing.Wait()
	return float64(delivered) / time.Since(start).Seconds()
}

// await waits until a message is delivered, and returns to how many.
func (s *star) await(b *testing.B, id message.ID) int64 {
	b.Helper()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		status, err := s.client.Status(b.Context(), id)
		if err != nil {
			panic(err)
		}
		if status.Fanout.State == message.StateDone {
			return status.Fanout.Delivered
		}
		<-poll.C
	}
}

// after returns a channel that is closed after a while.
func after(d time.Duration) <-chan struct{} {
	over := make(chan struct{})
	time.AfterFunc(d, func() { close(over) })
	return over
}

// verify requires that every fan has exactly the star's messages.
func (s *star) verify(b *testing.B, fans []message.UserID) {
	b.Helper()
	slices.SortFunc(s.ids, message.ID.Compare)
	var next atomic.Int64
	spread(len(fans), connections, func() error {
		return holds(b.Context(), s.client, fans[next.Add(1)-1], s.ids)
	})
}

// holds returns an error unless an inbox holds exactly the messages with some ids, which are ascending, in their order.
func holds(ctx context.Context, c *client.Client, user message.UserID, ids []message.ID) error {
	at := len(ids)
	for m, err := range c.InboxAll(ctx, user, client.InboxOptions{Limit: 200, Peek: true}) {
		if err != nil {
			return err
		}
		at--
		if at < 0 || m.ID != ids[at] {
			return fmt.Errorf("inbox of %s: %s is not what should come %d messages after the newest", user, m.ID, len(ids)-1-at)
		}
	}
	if at != 0 {
		return fmt.Errorf("inbox of %s: the %d oldest messages are missing", user, at)
	}
	return nil
}
