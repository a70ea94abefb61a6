package wake

import (
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/fanmail/fanmail/internal/startstop"
)

const (
	watchSubject  = "fanmail.v1.watch"
	changedPrefix = "fanmail.v1.changed." // and the number of the process that watches

	// announceEvery is how often a process announces all that it watches, and forgetAfter how long the others believe it: one announcement may
	// be lost.
	announceEvery = 10 * time.Second
	forgetAfter   = 25 * time.Second
	// sendEvery is the least time between two sendings. Hints in between are sent together.
	sendEvery = 2 * time.Millisecond
	// maxPending is how many hints may wait to be sent: 512 KiB in a sending.
	maxPending = 1 << 16
	// maxElsewhere is how many hashes of other processes are remembered, in about 250 MB.
	maxElsewhere = 4_000_000
	// maxWatchers is how many other processes may watch one hash: the devices of a user are connected to few. It bounds what a change costs.
	maxWatchers = 4
	// maxHashes is how many hashes a message has, so that it is below 8 KiB, which every NATS server takes.
	maxHashes = 1000
	// atOnce is how many remembered hashes are checked under one lock, so that no append waits for all of them.
	atOnce = 1 << 13

	wireVersion = 1
	headBytes   = 1 + 4 // the version and the number of the sender
	hashBytes   = 8
)

// Bus carries hints between processes. All methods are safe for concurrent use.
type Bus interface {
	// Say sends a message to the processes that hear the subject at the moment, the caller included. It does not wait for them.
	Say(subject string, payload []byte) error
	// Hear calls f with each message on a subject, one after another, until stop is called. The payload belongs to the bus again when f returns.
	Hear(subject string, f func(payload []byte)) (stop func(), err error)
}

// hint says to a process that an inbox has changed, or to everyone that this process watches it.
type hint struct {
	to   uint32
	hash uint64
}

const everyone = 0 // no process has this number

// watcher is another process that watches a hash, and when it has announced that: 24 bits of the process, and 8 of the time in seconds. So 16 bytes
// are enough for a hash. The zero watcher is none.
type watcher uint32

type watchers [maxWatchers]watcher

func (h *Hub) seconds() uint8 { return uint8(h.opts.Now().Unix()) } //nolint:gosec // only differences count

func (w watcher) process() uint32 { return uint32(w >> 8) }

// alive reports whether the watcher has announced lately that it watches the hash. If the clock was set back, it has not.
func (w watcher) alive(now uint8) bool {
	return w.process() != everyone && now-uint8(w) <= uint8(forgetAfter/time.Second) //nolint:gosec // the lower bits
}

// add adds a watcher, or its newer announcement. It reports false if there is no room.
func (all *watchers) add(w watcher) bool {
	i := slices.IndexFunc(all[:], func(other watcher) bool { return other.process() == w.process() })
	if i < 0 {
		i = slices.IndexFunc(all[:], func(other watcher) bool { return !other.alive(uint8(w)) }) //nolint:gosec // the lower bits
	}
	if i < 0 {
		return false
	}
	all[i] = w
	return true
}

// post leaves a hint to Run.
func (h *Hub) post(p hint) {
	if h.opts.Bus == nil {
		return
	}
	h.pendingMu.Lock()
	defer h.pendingMu.Unlock()
	if len(h.pending) == maxPending {
		h.dropped.Inc()
		return
	}
	h.pending[p] = struct{}{}
	select {
	case h.due <- struct{}{}:
	default:
	}
}

// Run exchanges hints with other processes until intake ends. It is a startstop.Loop.
func (h *Hub) Run(intake, _ context.Context) {
	if h.opts.Bus == nil {
		return
	}
	for subject, hear := range map[string]func(uint32, []uint64){watchSubject: h.hearWatch, changedSubject(h.process): h.hearChanged} {
		stop, err := h.opts.Bus.Hear(subject, func(payload []byte) { hear(h.decode(payload)) })
		if err != nil {
			h.opts.Logger.Error().Err(err).Msg("other processes cannot wake the streams of this one: they see changes when they look by themselves")
			return
		}
		defer stop()
	}
	announce := time.NewTicker(announceEvery)
	defer announce.Stop()
	for {
		select {
		case <-intake.Done():
			return
		case <-announce.C:
			h.forget()
			h.mu.RLock()
			hashes := slices.Collect(maps.Keys(h.here))
			h.mu.RUnlock()
			h.say(everyone, hashes)
		case <-h.due:
			h.send()
			startstop.Pause(intake, sendEvery)
		}
	}
}

// send sends what is pending.
func (h *Hub) send() {
	h.pendingMu.Lock()
	pending := h.pending
	h.pending = make(map[hint]struct{})
	h.pendingMu.Unlock()
	hashes := make(map[uint32][]uint64)
	for p := range pending {
		hashes[p.to] = append(hashes[p.to], p.hash)
	}
	for to, hashes := range hashes {
		h.say(to, hashes)
	}
}

func (h *Hub) say(to uint32, hashes []uint64) {
	subject, sent := watchSubject, 0
	if to != everyone {
		subject, sent = changedSubject(to), 1
	}
	for some := range slices.Chunk(hashes, maxHashes) {
		b := binary.BigEndian.AppendUint32([]byte{wireVersion}, h.process)
		for _, hash := range some {
			b = binary.BigEndian.AppendUint64(b, hash)
		}
		if h.opts.Bus.Say(subject, b) != nil { // the bus logs that it has no connection
			h.dropped.Add(float64(len(some)))
			continue
		}
		h.sent.Add(float64(sent * len(some)))
	}
}

func changedSubject(process uint32) string {
	return changedPrefix + strconv.FormatUint(uint64(process), 10)
}

// decode returns the sender and the hashes of a message. It counts a message that is none, and returns no hashes.
func (h *Hub) decode(b []byte) (process uint32, hashes []uint64) {
	n := (len(b) - headBytes) / hashBytes
	if len(b) < headBytes || b[0] != wireVersion || len(b) != headBytes+n*hashBytes || n > maxHashes {
		h.dropped.Inc()
		return 0, nil
	}
	for i := range n {
		hashes = append(hashes, binary.BigEndian.Uint64(b[headBytes+i*hashBytes:]))
	}
	return binary.BigEndian.Uint32(b[1:]), hashes
}

// hearChanged hears which inboxes another process has changed.
func (h *Hub) hearChanged(_ uint32, hashes []uint64) {
	for _, hash := range hashes {
		h.wake(hash)
	}
	h.received.Add(float64(len(hashes)))
}

// hearWatch hears what a process watches.
func (h *Hub) hearWatch(process uint32, hashes []uint64) {
	if process == h.process {
		return
	}
	w := watcher(process<<8) | watcher(h.seconds())
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, hash := range hashes {
		all, there := h.elsewhere[hash]
		if !there && len(h.elsewhere) >= h.room || !all.add(w) {
			h.dropped.Inc()
			continue
		}
		h.elsewhere[hash] = all
	}
	h.count()
}

// forget forgets what no process has announced lately. It does so before the seconds of a watcher wrap.
func (h *Hub) forget() {
	now, checked := h.seconds(), 0
	h.mu.Lock()
	defer h.mu.Unlock()
	for hash, all := range h.elsewhere {
		left := all
		for i, w := range all {
			if !w.alive(now) {
				left[i] = 0
			}
		}
		switch left {
		case watchers{}:
			delete(h.elsewhere, hash)
		case all:
		default:
			h.elsewhere[hash] = left
		}
		if checked++; checked%atOnce == 0 {
			h.mu.Unlock()
			h.mu.Lock()
		}
	}
	h.count()
}
