package bustest

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// hearViewed announces views until two listeners have heard them. An announcement before a listener listens is lost, so the test
// repeats it.
func (s *suite) hearViewed() {
	ours := event.NewViewed([]message.UserID{"ann", "名前"})
	others := event.NewViewed([]message.UserID{"ben"})
	ctx, stop := context.WithCancel(s.ctx())
	var listeners sync.WaitGroup
	ears := make([]*ear, 2)
	for i := range ears {
		ears[i] = &ear{}
		listeners.Go(func() { ears[i].err = s.Bus.HearViewed(ctx, ears[i].hear) })
	}
	require.Eventually(s.t, func() bool {
		s.Bus.EmitViewed(ours)
		for _, payload := range []string{"nonsense", `{"v":1,"users":["a b"]}`, `{"v":2,"users":["ann"]}`, `{"v":1,"users":["ben"],"later":7}`} {
			if s.View([]byte(payload)) != nil {
				return false
			}
		}
		return ears[0].heardAll(ours, others) && ears[1].heardAll(ours, others)
	}, patience, 10*time.Millisecond)
	stop()
	listeners.Wait()
	for _, e := range ears {
		require.Equal(s.t, context.Canceled, e.err)
		for _, viewed := range e.all {
			require.Contains(s.t, []event.Viewed{ours, others}, viewed)
		}
	}
}

func (s *suite) hearViewedEnds() {
	s.requireEnds(func(ctx context.Context) error {
		return s.Bus.HearViewed(ctx, func(event.Viewed) {})
	})
}

// ear remembers what a listener has heard.
type ear struct {
	err error
	mu  sync.Mutex
	all []event.Viewed
}

func (e *ear) hear(v event.Viewed) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, v)
}

func (e *ear) heardAll(wanted ...event.Viewed) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range wanted {
		heard := false
		for _, v := range e.all {
			heard = heard || v.Users[0] == w.Users[0]
		}
		if !heard {
			return false
		}
	}
	return true
}
