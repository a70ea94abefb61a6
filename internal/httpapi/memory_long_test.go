//go:build long

package httpapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/httpapi"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// discard is a http.ResponseWriter that keeps the status and the number of bytes. Its first write of a page waits.
type discard struct {
	header http.Header
	status int
	bytes  int
	wait   func()
}

func (d *discard) Header() http.Header    { return d.header }
func (d *discard) WriteHeader(status int) { d.status = status }
func (d *discard) Write(p []byte) (int, error) {
	if d.bytes == 0 && d.status == http.StatusOK {
		d.wait()
	}
	d.bytes += len(p)
	return len(p), nil
}

// heap returns how many bytes of memory objects take, also those that are garbage.
func heap() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// Readers with three tokens ask for 24 pages of one inbox at the same time, and repeat what is refused. All get their page, and the server does not
// grow by more than 200 MiB.
//
//nolint:paralleltest // it measures the heap of the process
func TestPagesInMemory(t *testing.T) {
	const (
		readers  = 24
		most     = 200 << 20
		messages = 1000
	)
	many := make([]message.UserID, message.MaxRecipients)
	for i := range many {
		many[i] = message.UserID(fmt.Sprintf("user-%0123d", i))
	}
	for _, test := range []struct {
		name, query string
		body        string
		to          []message.UserID
		// slow means that no reader reads on until all have begun.
		dormant, slow bool
	}{
		{"bodies of 64 KiB", "limit=200", strings.Repeat("x", 64<<10), nil, false, false},
		{"readers that do not read", "limit=200", strings.Repeat("x", 64<<10), nil, false, true},
		{"a dormant user", "limit=200", strings.Repeat("x", 64<<10), []message.UserID{"bob"}, true, false},
		{"a filter that finds nothing", "limit=200&from=nobody", strings.Repeat("x", 64<<10), nil, false, false},
		{"messages that name 10,000 users", "limit=200", "x", many, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := guarded(t, settings{
				fs: vfs.Default, folder: t.TempDir(), options: func(o *httpapi.Options) { o.Memory = httpapi.NewMemory(256 << 20) },
			})
			if !test.dormant {
				w.must(t, http.StatusOK, http.MethodGet, "/v1/users/bob/inbox", "", as("bob")...)
				w.rest(t)
			}
			for n := 1; n <= messages; n += bucket.Capacity {
				a := bucket.Append{Owner: "bob"}
				var stored []message.Message
				for i := range bucket.Capacity {
					m := message.Message{ID: messagetest.ID(n + i), From: "ann", To: test.to, Audience: message.AudienceFollowers, Body: test.body}
					a.Entries = append(a.Entries, bucket.EntryOf(m))
					if test.dormant || n > messages-2*bucket.Capacity && test.to != nil {
						stored = append(stored, m)
					}
				}
				_, err := w.db.Messages().Insert(t.Context(), stored, messagetest.AnyTime)
				require.NoError(t, err)
				if test.dormant {
					continue
				}
				results, err := w.appender.Append(t.Context(), []bucket.Append{a})
				require.NoError(t, err)
				require.NoError(t, results[0].Err)
			}
			runtime.GC()
			before, peak := heap(), int64(0)
			stop, sampled := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(sampled)
				for tick := time.NewTicker(time.Millisecond); ; {
					peak = max(peak, heap()-before)
					select {
					case <-tick.C:
					case <-stop:
						return
					}
				}
			}()
			var all, begun sync.WaitGroup
			wait := func() {}
			if test.slow {
				begun.Add(readers)
				wait = func() { begun.Done(); begun.Wait() }
			}
			var mu sync.Mutex
			refused, bytes, began := 0, 0, time.Now()
			for i := range readers {
				all.Go(func() {
					for {
						r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/users/bob/inbox?peek=true&"+test.query, http.NoBody)
						r.Header.Set("Authorization", as([]string{"bob", "gateway", "operator"}[i%3])[1])
						answer := &discard{header: http.Header{}, wait: wait}
						w.handler.ServeHTTP(answer, r)
						mu.Lock()
						bytes += answer.bytes
						again := answer.status == http.StatusServiceUnavailable
						if again {
							refused++
						}
						mu.Unlock()
						if !again {
							if answer.status != http.StatusOK {
								t.Errorf("status %d", answer.status)
							}
							return
						}
					}
				})
			}
			all.Wait()
			took := time.Since(began)
			close(stop)
			<-sampled
			t.Logf("%d pages with %d bytes took %s; %d were refused first; the peak is %d MiB above %d MiB", readers, bytes, took, refused, peak>>20, before>>20)
			require.LessOrEqual(t, peak, int64(most))
			if test.dormant {
				return
			}
			page := w.must(t, http.StatusOK, http.MethodGet, "/v1/users/bob/inbox?peek=true&"+test.query, "", as("bob")...)
			require.Contains(t, page, `"total":1000`)
		})
	}
}
