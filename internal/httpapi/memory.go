package httpapi

import (
	"context"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/client"
)

const (
	// pageMemory is the most that a page of an inbox takes while it is read: the documents of one reply of a database, and the entries of
	// ReadBytes and of one bucket more.
	pageMemory = 8 * bucket.ReadBytes
	// messageMemory is the most that one message takes.
	messageMemory = 4 << 20
	// draftCopies is how often the text of a draft is in memory: as it was sent, and decoded.
	draftCopies = 2
	// pagesPerToken is how many pages one token may have at a time, so that one client cannot take the memory of all.
	pagesPerToken = 8
	// memoryWait is how long a request waits for memory.
	memoryWait = time.Second
)

// Memory bounds what requests hold in memory together, and rebuilds. It is safe for concurrent use.
type Memory struct {
	total int64
	free  *semaphore.Weighted

	mu     sync.Mutex
	tokens map[string]*tokenPages
}

// tokenPages are the pages of a token, used by so many requests.
type tokenPages struct {
	free *semaphore.Weighted
	used int
}

// NewMemory returns a Memory of so many bytes.
func NewMemory(total int64) *Memory {
	return &Memory{total: total, free: semaphore.NewWeighted(total), tokens: make(map[string]*tokenPages)}
}

// Reserve waits until so many bytes are free, and takes them, or all if there are never so many. The caller must call release once.
func (m *Memory) Reserve(ctx context.Context, bytes int64) (release func(), err error) {
	keep, err := m.Hold(ctx, bytes)
	return func() { keep(0) }, err
}

// Hold is Reserve with a function that gives back all but so many bytes. The caller must at last keep 0.
func (m *Memory) Hold(ctx context.Context, bytes int64) (keep func(bytes int64), err error) {
	r, err := m.reserve(ctx, bytes)
	return r.keep, err
}

func (m *Memory) reserve(ctx context.Context, bytes int64) (reservation, error) {
	r := reservation{memory: m, bytes: min(bytes, m.total)}
	if err := m.free.Acquire(ctx, r.bytes); err != nil {
		return reservation{}, err
	}
	return r, nil
}

// reservation is memory that a request has taken.
type reservation struct {
	memory *Memory
	bytes  int64
}

// keep gives back all but so many bytes.
func (r *reservation) keep(bytes int64) {
	if r.memory != nil && bytes < r.bytes {
		r.memory.free.Release(r.bytes - bytes)
		r.bytes = bytes
	}
}

// page waits for one of the pages of a token. The caller must call release once.
func (m *Memory) page(ctx context.Context, token string) (release func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tokens[token]
	if t == nil {
		t = &tokenPages{free: semaphore.NewWeighted(pagesPerToken)}
		m.tokens[token] = t
	}
	t.used++
	m.mu.Unlock()
	err = t.free.Acquire(ctx, 1)
	m.mu.Lock()
	leave := func() {
		if t.used--; t.used == 0 {
			delete(m.tokens, token)
		}
	}
	if err != nil {
		leave()
		return nil, err
	}
	return func() {
		t.free.Release(1)
		m.mu.Lock()
		defer m.mu.Unlock()
		leave()
	}, nil
}

// reserve takes the memory that an endpoint needs at worst, and returns a function that gives back what is left of it. A request that would have
// to wait longer than memoryWait is refused.
func (s *server) reserve(w *response, r *http.Request, e endpoint) (release func(), err error) {
	bytes := e.memory
	if e.body && r.ContentLength >= 0 {
		bytes = min(bytes, draftCopies*r.ContentLength)
	}
	if bytes == 0 || s.opts.Memory == nil {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), memoryWait)
	defer cancel()
	leave := func() {}
	if name := w.principal.Name(); name != "" && e.memory == pageMemory {
		leave, err = s.opts.Memory.page(ctx, name)
	}
	if err == nil {
		if w.memory, err = s.opts.Memory.reserve(ctx, bytes); err == nil {
			return func() { w.memory.keep(0); leave() }, nil
		}
		leave()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return nil, refuse(client.ProblemBusy, "", "the server has too much to do, and did nothing of this request: try again after Retry-After")
}
