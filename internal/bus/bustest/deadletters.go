package bustest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

func (s *suite) file(attempts int, subject string) {
	require.NoError(s.t, s.Bus.DeadLetter(s.ctx(), event.DeadLetter{
		Version: event.Version, Reason: "malformed", Error: "no", Attempts: attempts, Subject: subject, Payload: []byte{0xff},
	}))
}

func (s *suite) deadLetters() {
	for n, subject := range []string{"fanmail.v1.fanout.bulk.0", "fanmail.v1.published", "fanmail.v1.login", "elsewhere"} {
		s.file(n+1, subject)
	}
	all, err := s.Bus.DeadLetters(s.ctx(), 0, 10)
	require.NoError(s.t, err)
	require.Len(s.t, all, 4)
	for n, letter := range all {
		require.Equal(s.t, n+1, letter.Attempts)
		require.Equal(s.t, []byte{0xff}, letter.Payload)
		require.False(s.t, letter.At.IsZero())
	}
	page, err := s.Bus.DeadLetters(s.ctx(), all[0].ID, 2)
	require.NoError(s.t, err)
	require.Equal(s.t, all[1:3], page)
	page, err = s.Bus.DeadLetters(s.ctx(), all[3].ID, 2)
	require.NoError(s.t, err)
	require.Empty(s.t, page)
}

func (s *suite) dropGone() {
	s.file(1, "fanmail.v1.published")
	s.file(2, "fanmail.v1.published")
	all, err := s.Bus.DeadLetters(s.ctx(), 0, 10)
	require.NoError(s.t, err)
	for range 2 {
		require.NoError(s.t, s.Bus.Drop(s.ctx(), all[0].ID))
	}
	left, err := s.Bus.DeadLetters(s.ctx(), 0, 10)
	require.NoError(s.t, err)
	require.Equal(s.t, all[1:], left)
}

func (s *suite) emitAgain() {
	s.emitTasks(event.Bulk, 1, 0, 1)
	held := s.take(event.Bulk, 1)
	require.NoError(s.t, s.Bus.Emit(s.ctx(), event.DeadLetter{Subject: held.First().Subject, Payload: held.First().Payload}))
	require.Equal(s.t, ids(0, 1), s.behind(held, 10))
}

func (s *suite) consumed() {
	for subject, consumed := range map[string]bool{
		"fanmail.v1.published": true, "fanmail.v1.login": true, "fanmail.v1.fanout.bulk.0": true,
		"fanmail.v1.fanout.bulk.2": false, "fanmail.v1.fanout.slow.0": false, "fanmail.v1.rehydrated": false, "": false,
	} {
		require.Equal(s.t, consumed, s.Bus.Consumed(subject), subject)
	}
}

// damaged files letters for two users, one of them from several goroutines. Then it files with an earlier time, a later one, and after a
// drop.
func (s *suite) damaged() {
	at := func(minutes int) time.Time { return id(1).Time().Add(time.Duration(minutes) * time.Minute) }
	letters := func() (all []event.Damaged) {
		filed, err := s.Bus.DeadLetters(s.ctx(), 0, 10)
		require.NoError(s.t, err)
		for _, letter := range filed {
			require.Equal(s.t, event.ReasonDamaged, letter.Reason)
			require.False(s.t, s.Bus.Consumed(letter.Subject), "a redrive does not emit it")
			d, err := event.DecodeDamaged(letter.Payload)
			require.NoError(s.t, err)
			all = append(all, d)
		}
		return all
	}
	file := func(user message.UserID, minutes int) bool {
		filed, err := s.Bus.FileDamaged(s.ctx(), event.NewDamaged(user, at(minutes)), "the record is short")
		require.NoError(s.t, err)
		return filed
	}
	var calls sync.WaitGroup
	var count atomic.Int64
	for range 8 {
		calls.Go(func() {
			if filed, err := s.Bus.FileDamaged(s.ctx(), event.NewDamaged("ann.*>", at(5)), "the record is short"); err != nil {
				s.t.Error(err)
			} else if filed {
				count.Add(1)
			}
		})
	}
	calls.Wait()
	require.EqualValues(s.t, 1, count.Load())
	require.True(s.t, file("ben", 5))
	require.False(s.t, file("ann.*>", 6))
	require.False(s.t, file("ann.*>", 5))
	require.Equal(s.t, []event.Damaged{event.NewDamaged("ann.*>", at(5)), event.NewDamaged("ben", at(5))}, letters())
	require.True(s.t, file("ann.*>", 4))
	require.False(s.t, file("ann.*>", 5))
	require.Equal(s.t, []event.Damaged{event.NewDamaged("ben", at(5)), event.NewDamaged("ann.*>", at(5)).With(event.NewDamaged("ann.*>", at(4)))}, letters())
	require.True(s.t, file("ann.*>", 3000), "days later")
	require.False(s.t, file("ann.*>", 3001))
	require.Equal(s.t, []event.Damaged{event.NewDamaged("ben", at(5)), event.NewDamaged("ann.*>", at(4)).With(event.NewDamaged("ann.*>", at(3000)))}, letters())
	filed, err := s.Bus.DeadLetters(s.ctx(), 0, 10)
	require.NoError(s.t, err)
	require.NoError(s.t, s.Bus.Drop(s.ctx(), filed[1].ID))
	require.True(s.t, file("ann.*>", 7))
	require.False(s.t, file("ben", 5))
}
