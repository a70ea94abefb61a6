package httpapi

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/internal/following"
	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	defaultPageMax    = 200
	defaultBatchLines = 10_000
	// defaultPatience is longer than any network pauses that has not broken.
	defaultPatience = time.Minute
)

// Services are what is served. All of them are required but Metrics.
type Services struct {
	Publish   *publish.Service
	Reporter  *publish.Reporter
	Following *following.Service
	Inbox     *inbox.Service
	Rehydrate *rehydrate.Service
	Audit     *audit.Service
	// Ready returns nil, or why requests cannot be served at the moment.
	Ready func(context.Context) error
	// Metrics serves what is measured, under /metrics; nil if nothing is.
	Metrics http.Handler
}

// Options configures the handler.
type Options struct {
	// Limits are those that messages are published with. They bound request bodies.
	Limits message.Limits
	// PageMax is the greatest number of items on a page; 0 means 200.
	PageMax int
	// BatchLines is the greatest number of lines of a batch; 0 means 10,000.
	BatchLines int
	// Patience is how long a batch waits for the client to send more, or to take an answer; 0 means a minute.
	Patience time.Duration
	Logger   zerolog.Logger
	// Now is the clock that requests are timed with. It is required.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.PageMax == 0 {
		o.PageMax = defaultPageMax
	}
	if o.BatchLines == 0 {
		o.BatchLines = defaultBatchLines
	}
	if o.Patience == 0 {
		o.Patience = defaultPatience
	}
	return o
}

// New returns the handler of everything under /v1, of /healthz, /readyz and /metrics.
func New(services Services, opts Options) http.Handler {
	s := &server{Services: services, opts: opts.withDefaults(), mux: http.NewServeMux(), instance: rand.Text()[:8]}
	s.routes()
	return s
}

// server is the handler.
type server struct {
	Services
	opts Options
	mux  *http.ServeMux

	// instance and requests make up the ids of requests: they differ between servers and starts.
	instance string
	requests atomic.Uint64
}

func (s *server) routes() {
	s.route("/v1/messages", methods{
		http.MethodPost: {handle: s.publish, body: true},
	})
	s.route("/v1/messages:batch", methods{
		http.MethodPost: {handle: s.publishBatch, body: true},
	})
	s.route("/v1/messages/{id}", methods{
		http.MethodGet: {handle: s.status},
	})
	s.route("/v1/following:batch", methods{
		http.MethodPost: {handle: s.followBatch, body: true},
	})
	s.route("/v1/users:batch", methods{
		http.MethodPost: {handle: s.setSeenBatch, body: true},
	})
	s.route("/v1/users/{user}", methods{
		http.MethodGet: {handle: s.user},
		http.MethodPut: {handle: s.setSeen, body: true},
	})
	s.route("/v1/users/{user}/login", methods{
		http.MethodPost: {handle: s.login, query: []string{"wait"}},
	})
	s.route("/v1/users/{user}/followers", methods{
		http.MethodGet: {handle: s.followers, query: []string{"after", "limit"}},
	})
	s.route("/v1/users/{user}/following", methods{
		http.MethodGet: {handle: s.following, query: []string{"after", "limit"}},
	})
	s.route("/v1/users/{user}/following/{followee}", methods{
		http.MethodPut:    {handle: s.follow},
		http.MethodDelete: {handle: s.unfollow},
	})
	s.route("/v1/users/{user}/inbox", methods{
		http.MethodGet: {handle: s.inbox, query: []string{"before", "limit", "peek"}},
	})
	s.route("/v1/users/{user}/inbox/read", methods{
		http.MethodPost: {handle: s.markRead, body: true},
	})
	s.route("/v1/users/{user}/inbox/{id}", methods{
		http.MethodDelete: {handle: s.deleteEntry},
	})
	s.route("/v1/admin/explain", methods{
		http.MethodGet: {handle: s.explain, query: []string{"user", "message"}},
	})
	s.route("/v1/admin/audit", methods{
		http.MethodPost: {handle: s.audit, query: []string{"user", "sample", "repair"}, body: true},
	})
	s.route("/healthz", methods{http.MethodGet: {handle: s.health}})
	s.route("/readyz", methods{http.MethodGet: {handle: s.ready}})
	if s.Metrics != nil {
		s.route("/metrics", methods{http.MethodGet: {handle: s.metrics}})
	}
	s.mux.Handle("/", s.serve(nil))
}
