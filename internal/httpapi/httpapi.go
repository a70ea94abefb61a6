package httpapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/internal/auth"
	"github.com/fanmail/fanmail/internal/backup"
	"github.com/fanmail/fanmail/internal/deadletter"
	"github.com/fanmail/fanmail/internal/following"
	"github.com/fanmail/fanmail/internal/identities"
	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/live"
	"github.com/fanmail/fanmail/internal/overview"
	"github.com/fanmail/fanmail/internal/panics"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/internal/topics"
	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// defaultIdleTimeout is longer than the pauses of a working network.
	defaultIdleTimeout = time.Minute
	// defaultStreamWriteTimeout is long for a frame, and defaultStreamHeartbeat below what proxies wait for a silent connection.
	defaultStreamWriteTimeout = 20 * time.Second
	defaultStreamHeartbeat    = 25 * time.Second
	// refusalBurst and refusalPeriod limit how often the server logs a refused token: 10 times in 10 s. So a client that guesses
	// tokens cannot fill the log.
	refusalBurst  = 10
	refusalPeriod = 10 * time.Second
)

// Services are the services behind the handler.
type Services struct {
	// Publish, Following, Identities and Topics are the services of the role publisher. Either all are set or none.
	Publish    *publish.Service
	Following  *following.Service
	Identities *identities.Service
	Topics     *topics.Service
	// Inbox, Rehydrate, Audit, DeadLetters, Settings, Retention, Overview and Live are the services of the role rehydrator. Either all are set or none.
	Inbox       *inbox.Service
	Rehydrate   *rehydrate.Service
	Audit       *audit.Service
	DeadLetters *deadletter.Service
	Settings    *settings.Service
	Retention   *retention.Walker
	Overview    *overview.Service
	Live        *live.Service
	// Reporter is that of both roles.
	Reporter *publish.Reporter
	// Backup makes backups of the store. It is nil if the store is not embedded.
	Backup *backup.Service
	// Room returns nil, or the reason why the store has no room for new messages and edges. A nil Room means that there is always
	// room.
	Room func() error
	// Ready is required. It returns the reasons why this process should not receive requests now, none if it is ready. limited lists what
	// is away, and not needed for the work of this process.
	Ready func(context.Context) (reasons, limited []client.Reason)
	// Metrics serves /metrics; nil if the process serves no metrics.
	Metrics http.Handler
}

// Options configures the handler.
type Options struct {
	// Limits are the limits of messages. The limits of request bodies follow from them.
	Limits message.Limits
	// PageMax is the maximum number of items on a page.
	PageMax int
	// BatchLines is the maximum number of lines of a batch.
	BatchLines int
	// IdleTimeout is how long a batch or an audit waits for the client to send or to receive; 0 means a minute.
	IdleTimeout time.Duration
	Logger      zerolog.Logger
	Tracer      tracing.Tracer
	// Auth returns the principal of a token; nil if the server does not authenticate clients.
	Auth Authenticator
	// LocalOnly refuses requests whose Host is neither an IP address nor localhost. It protects a server without authentication
	// from pages in a browser on the same host: another site can point a name of its own at this host.
	LocalOnly bool
	// SenderRate limits the messages of one sender, AddressRate the requests of one address, EdgeRate the new edges of one user.
	SenderRate, AddressRate, EdgeRate Rate
	// StreamWriteTimeout is how long the write of a frame may take, and StreamHeartbeat how long a stream is silent; 0 means 20 s and 25 s.
	StreamWriteTimeout, StreamHeartbeat time.Duration
	// Origins are those of pages that may call the API, such as https://app.example.com.
	Origins []string
	// Console returns the handler of the paths below /console/, given that of the API; nil if there is none.
	Console func(api http.Handler) http.Handler
	// Memory bounds what requests hold in memory together; nil bounds nothing.
	Memory *Memory
	// Now is the clock that measures requests. It is required.
	Now func() time.Time
	// Metrics is the registry of the metrics; nil registers none.
	Metrics prometheus.Registerer
}

// New returns the handler of all paths under /v1, and of /healthz, /readyz, /metrics and /openapi.json.
func New(services Services, opts Options) http.Handler {
	s := newServer(services, opts)
	s.routes()
	return s
}

func newServer(services Services, opts Options) *server {
	opts.IdleTimeout = cmp.Or(opts.IdleTimeout, defaultIdleTimeout)
	opts.StreamWriteTimeout = cmp.Or(opts.StreamWriteTimeout, defaultStreamWriteTimeout)
	opts.StreamHeartbeat = cmp.Or(opts.StreamHeartbeat, defaultStreamHeartbeat)
	return &server{
		Services: services, opts: opts, panics: panics.NewRecorder(opts.Logger, opts.Metrics, "request"),
		measured: newMetrics(opts.Metrics), mux: http.NewServeMux(), routed: make(map[string]methods), instance: rand.Text()[:8],
		anyone: auth.Anyone(), sites: sites(opts.Origins),
		senders: newLimiter(opts.SenderRate, opts.Now), addresses: newLimiter(opts.AddressRate, opts.Now),
		edges:    newLimiter(opts.EdgeRate, opts.Now),
		refusals: opts.Logger.Sample(&zerolog.BurstSampler{Burst: refusalBurst, Period: refusalPeriod}),
	}
}

// NewStarting returns the handler of a process that waits for a dependency before it can serve. /healthz answers that the process
// is healthy. Every other path answers that it is not ready, and names the dependency, which waiting returns.
func NewStarting(waiting func() string, opts Options) http.Handler {
	s := newServer(Services{}, opts)
	s.Ready = func(context.Context) (reasons, limited []client.Reason) {
		return []client.Reason{{Name: client.ReasonStarting, Detail: "it is starting, and waits for " + waiting()}}, nil
	}
	s.route("/healthz", methods{http.MethodGet: {handle: s.health, access: open}})
	s.mux.Handle("/", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w := rw.(*response) //nolint:forcetypeassert // ServeHTTP passes only *response to the mux
		s.fail(w, s.ready(w, r))
	}))
	return s
}

// server is the handler.
type server struct {
	Services
	opts     Options
	measured *metrics
	panics   *panics.Recorder
	mux      *http.ServeMux
	// routed has the endpoints of each pattern.
	routed map[string]methods

	anyone *auth.Principal
	sites  *http.CrossOriginProtection

	senders, addresses, edges *limiter

	refusals  zerolog.Logger
	readiness readiness

	// instance and requests form the ids of requests. instance differs between servers and starts.
	instance string
	requests atomic.Uint64
}
