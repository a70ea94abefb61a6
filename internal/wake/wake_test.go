package wake_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/wake"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const watchSubject = "fanmail.v1.watch"

// network connects hubs. It remembers the subjects of what they say.
type network struct {
	mu      sync.Mutex
	hearers map[string]map[int]func([]byte)
	next    int
	said    []string
	down    bool
}

func (n *network) Say(subject string, payload []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		return errors.New("no connection")
	}
	n.said = append(n.said, subject)
	for _, f := range n.hearers[subject] {
		f(bytes.Clone(payload))
	}
	return nil
}

func (n *network) Hear(subject string, f func([]byte)) (func(), error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		return nil, errors.New("no connection")
	}
	if n.hearers[subject] == nil {
		n.hearers[subject] = make(map[int]func([]byte))
	}
	n.next++
	number := n.next
	n.hearers[subject][number] = f
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.hearers[subject], number)
	}, nil
}

// take returns the subjects since the last call.
func (n *network) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	said := n.said
	n.said = nil
	return said
}

func newNetwork() *network { return &network{hearers: make(map[string]map[int]func([]byte))} }

// process is a hub with its metrics. stop ends its Run.
type process struct {
	*wake.Hub
	metrics *prometheus.Registry
	stop    func()
}

// join starts a hub on the network.
func (n *network) join(t *testing.T, name string) *process {
	t.Helper()
	p := &process{metrics: prometheus.NewRegistry()}
	p.Hub = wake.New(wake.Options{Bus: n, Process: name, Now: time.Now, Logger: zerolog.New(zerolog.NewTestWriter(t)), Metrics: p.metrics})
	intake, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Run(intake, t.Context())
	}()
	p.stop = func() {
		stop()
		<-ended
	}
	synctest.Wait() // it hears
	return p
}

// metric returns the value of a metric without labels.
func (p *process) metric(t *testing.T, name string) int {
	t.Helper()
	families, err := p.metrics.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if m := family.GetMetric()[0]; family.GetName() == "fanmail_"+name {
			return int(m.GetCounter().GetValue() + m.GetGauge().GetValue())
		}
	}
	require.Fail(t, "there is no metric "+name)
	return 0
}

// settle waits until everything that is pending was sent.
func settle() {
	time.Sleep(10 * time.Millisecond) // of the bubble
	synctest.Wait()
}

// woken reports whether a watch was woken since the last call.
func woken(w *wake.Watch) bool {
	select {
	case <-w.C():
		return true
	default:
		return false
	}
}

func TestChangesWakeWatchesInAllProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		writer, phone, laptop := n.join(t, "writer"), n.join(t, "phone"), n.join(t, "laptop")
		for range 1000 {
			writer.Changed("ann")
		}
		settle()
		require.Empty(t, n.take(), "nothing is sent when nobody watches")

		watches := []*wake.Watch{phone.Watch("ann"), phone.Watch("ann"), laptop.Watch("ann"), writer.Watch("ann")}
		other := phone.Watch("ben")
		settle()
		require.Equal(t, []string{watchSubject, watchSubject, watchSubject}, n.take(), "each process announces at once and together what is new")
		for range 3 {
			writer.Changed("ann")
			for _, w := range watches {
				<-w.C()
			}
			require.False(t, woken(other))
			require.Len(t, n.take(), 2, "one for each other process that watches")
			settle()
		}
		require.Equal(t, 6, writer.metric(t, "wakeups_sent_total"))
		require.Equal(t, 3, phone.metric(t, "wakeups_received_total"))
		require.Equal(t, 2, phone.metric(t, "watched_inboxes"))
		require.Equal(t, 1, phone.metric(t, "watched_elsewhere"))

		watches[0].Close()
		watches[0].Close()
		phone.Changed("ann")
		<-watches[1].C()
		require.False(t, woken(watches[0]))
		for _, w := range append(watches[1:], other) {
			w.Close()
		}
		time.Sleep(36 * time.Second)
		n.take()
		for _, p := range []*process{writer, phone, laptop} {
			require.Zero(t, p.metric(t, "watched_inboxes")+p.metric(t, "watched_elsewhere")+p.metric(t, "wakeups_dropped_total"))
			p.Changed("ann")
		}
		time.Sleep(time.Minute)
		require.Empty(t, n.take())
		for _, p := range []*process{writer, phone, laptop} {
			p.stop()
		}
	})
}

// A process is forgotten 25 s after its last announcement, also where another one watches the same inbox. It need not be heard each time.
func TestWatchersAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		early, stays := n.join(t, "early"), n.join(t, "stays")
		w := early.Watch("ann")
		defer w.Close()
		settle()
		stays.Watch("ann")
		settle()
		writer := n.join(t, "writer")
		time.Sleep(10 * time.Second) // it hears what it has missed
		n.take()
		changed := func() int {
			writer.Changed("ann")
			settle()
			return len(n.take())
		}
		require.Equal(t, 2, changed())
		early.stop()
		n.mu.Lock()
		n.down = true
		n.mu.Unlock()
		time.Sleep(10 * time.Second)
		n.mu.Lock()
		n.down = false
		n.mu.Unlock()
		require.Equal(t, 2, changed(), "one announcement was lost")
		time.Sleep(14 * time.Second)
		n.take()
		require.Equal(t, 2, changed(), "after 24 s")
		time.Sleep(2 * time.Second)
		n.take()
		require.Equal(t, 1, changed(), "after 26 s")
		for range 60 { // the seconds of a watcher wrap
			time.Sleep(10 * time.Second)
			n.take()
			require.Equal(t, 1, changed())
		}
		stays.stop()
		time.Sleep(36 * time.Second)
		require.Zero(t, writer.metric(t, "watched_elsewhere"))
		require.Zero(t, changed())
		writer.stop()
	})
}

// announcement returns what a process announces that watches the hashes from first on.
func announcement(process uint32, first, hashes int) []byte {
	b := binary.BigEndian.AppendUint32([]byte{1}, process)
	for i := range hashes {
		b = binary.BigEndian.AppendUint64(b, uint64(first+i))
	}
	return b
}

func TestStrangersCannotTakeMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		p := n.join(t, "process")
		defer p.stop()
		p.SetRoom(2500)
		say := func(payload []byte) (remembered, dropped int) {
			t.Helper()
			remembered, dropped = p.metric(t, "watched_elsewhere"), p.metric(t, "wakeups_dropped_total")
			require.NoError(t, n.Say(watchSubject, payload))
			return p.metric(t, "watched_elsewhere") - remembered, p.metric(t, "wakeups_dropped_total") - dropped
		}
		for name, payload := range map[string][]byte{
			"empty": {}, "no sender": {1}, "text": []byte(`{"user":"ann"}`), "another version": append([]byte{2}, announcement(1, 0, 1)[1:]...),
			"cut": announcement(1, 0, 2)[:20], "too long": announcement(1, 0, 1001), "huge": make([]byte, 1<<20),
		} {
			remembered, dropped := say(payload)
			require.Zero(t, remembered, name)
			require.Equal(t, 1, dropped, name)
		}
		for process, want := range [][2]int{{1000, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 1000}} {
			remembered, dropped := say(announcement(uint32(process+1), 0, 1000))
			require.Equal(t, want, [2]int{remembered, dropped}, "process %d", process)
		}
		for first, want := range map[int][2]int{0: {0, 0}, 1000: {1000, 0}} {
			remembered, dropped := say(announcement(1, first, 1000))
			require.Equal(t, want, [2]int{remembered, dropped}, "again, and more")
		}
		remembered, dropped := say(announcement(9, 5000, 1000))
		require.Equal(t, [2]int{500, 500}, [2]int{remembered, dropped}, "there is no more room")
		time.Sleep(36 * time.Second)
		remembered, _ = say(announcement(9, 5000, 1000))
		require.Equal(t, 1000, remembered, "there is room again")
	})
}

func TestPendingHintsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		p := n.join(t, "process")
		p.stop()
		for i := range wake.MaxPending + 3 {
			p.Watch(message.UserID(fmt.Sprint("user-", i)))
		}
		require.Equal(t, 3, p.metric(t, "wakeups_dropped_total"))
		n.down = true
		unreachable := n.join(t, "unreachable")
		unreachable.stop() // it has returned: without a bus there is nothing to do
		n.down = false
		cut := n.join(t, "cut")
		n.mu.Lock()
		n.down = true
		n.mu.Unlock()
		cut.Watch("ann")
		settle()
		require.Equal(t, 1, cut.metric(t, "wakeups_dropped_total"))
		cut.stop()
	})
}

func TestAlone(t *testing.T) {
	t.Parallel()
	h := wake.New(wake.Options{})
	h.Run(t.Context(), t.Context())
	w := h.Watch("ann")
	h.Changed("ben")
	require.False(t, woken(w))
	h.Changed("ann")
	h.Changed("ann")
	require.True(t, woken(w))
	require.False(t, woken(w), "there is room for one")
	w.Close()
	h.Changed("ann")
	require.False(t, woken(w))
}
