package httpapi

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/internal/auth"
	"github.com/fanmail/fanmail/internal/deadletter"
	"github.com/fanmail/fanmail/internal/following"
	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	defaultPageMax    = 200
	defaultBatchLines = 10_000
	// defaultPatience is longer than any network pauses that has not broken.
	defaultPatience = time.Minute
	// complaints and complaintPeriod bound how often the server logs a refused token, so that a client that guesses tokens
	// cannot fill the log.
	complaints      = 10
	complaintPeriod = 10 * time.Second
)

// Services are what is served.
type Services struct {
	// Publish, Reporter and Following are a publisher's, all or none of them.
	Publish   *publish.Service
	Reporter  *publish.Reporter
	Following *following.Service
	// Inbox, Rehydrate, Audit, DeadLetters and Settings are a rehydrator's, all or none of them.
	Inbox       *inbox.Service
	Rehydrate   *rehydrate.Service
	Audit       *audit.Service
	DeadLetters *deadletter.Service
	Settings    *settings.Service
	// Room returns nil, or why nothing new is accepted at the moment; nil if there is always room.
	Room func() error
	// Ready returns why requests should not be sent here at the moment; nothing if they should. It is required.
	Ready func(context.Context) []client.Reason
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
	Tracer   tracing.Tracer
	// Auth returns the principal of a token; nil if the server does not authenticate clients.
	Auth Authenticator
	// LocalOnly refuses requests for other hosts than an IP address or localhost. It is for servers that ask nobody who they
	// are, and that browsers on the same host can reach: a stranger's name may lead there.
	LocalOnly bool
	// SenderRate bounds the messages of one sender, AddressRate the requests of one address.
	SenderRate, AddressRate Rate
	// Now is the clock that requests are timed with. It is required.
	Now func() time.Time
	// Metrics is where the metrics are registered; nil means nowhere.
	Metrics prometheus.Registerer
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

// New returns the handler of everything under /v1, of /healthz, /readyz, /metrics and /openapi.json.
func New(services Services, opts Options) http.Handler {
	s := newServer(services, opts)
	s.routes()
	return s
}

func newServer(services Services, opts Options) *server {
	opts = opts.withDefaults()
	return &server{
		Services: services, opts: opts, measured: newMetrics(opts.Metrics), mux: http.NewServeMux(), routed: make(map[string]methods), instance: rand.Text()[:8],
		anyone: auth.Anyone(), sites: http.NewCrossOriginProtection(),
		senders: newLimiter(opts.SenderRate, opts.Now), addresses: newLimiter(opts.AddressRate, opts.Now),
		complaints: opts.Logger.Sample(&zerolog.BurstSampler{Burst: complaints, Period: complaintPeriod}),
	}
}

// NewStarting returns the handler of a process that waits for something before it can serve anything: it tells that the
// process is healthy, and not ready, and what is waited for.
func NewStarting(waiting func() string, opts Options) http.Handler {
	s := newServer(Services{}, opts)
	s.Ready = func(context.Context) []client.Reason {
		return []client.Reason{{Name: client.ReasonStarting, Detail: "it is starting, and waits for " + waiting()}}
	}
	s.route("/healthz", methods{http.MethodGet: {handle: s.health, access: open}})
	s.mux.Handle("/", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w := rw.(*response) //nolint:forcetypeassert // ServeHTTP hands nothing else to the mux
		s.fail(w, s.ready(w, r))
	}))
	return s
}

// server is the handler.
type server struct {
	Services
	opts     Options
	measured *metrics
	mux      *http.ServeMux
	// routed are the endpoints of each path.
	routed map[string]methods

	anyone             *auth.Principal
	sites              *http.CrossOriginProtection
	senders, addresses *limiter
	complaints         zerolog.Logger

	// instance and requests make up the ids of requests: they differ between servers and starts.
	instance string
	requests atomic.Uint64
}
