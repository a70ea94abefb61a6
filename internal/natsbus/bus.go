package natsbus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/semaphore"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/event"
)

// Defaults of Options.
const (
	// DefaultRequestTimeout is how long a request waits for the server.
	DefaultRequestTimeout = 5 * time.Second
	// DefaultDrainTimeout is how long a call whose context has ended waits for events that the server has already sent.
	DefaultDrainTimeout = time.Second
)

const (
	// reconnectWait is the pause between two attempts to connect to the server again.
	reconnectWait = 250 * time.Millisecond
	// pingEvery and pingsUnanswered are how soon a connection whose other end is gone without a word counts as lost: after at most 12 s, which is
	// three pings. Until then calls wait for answers that never come. The defaults of the client are six minutes.
	pingEvery       = 4 * time.Second
	pingsUnanswered = 2
	// flushWait limits how long Close waits until the server has received everything.
	flushWait = 2 * time.Second
	// minMaxPayload is the least max_payload of a server in bytes. Every event fits into it: the largest is a shortened dead letter.
	minMaxPayload = 8 << 10
	// complaintPeriod limits how often the bus logs a failure that all consumers have at the same time.
	complaintPeriod = 10 * time.Second
)

// Options configures a Bus. Give either Server or URL.
type Options struct {
	// Server is a NATS server in this process (natsserver.Server). The connection to it needs no network.
	Server nats.InProcessConnProvider
	// URL is the address of the NATS server. Several addresses are separated by commas.
	URL string
	// CredentialsFile contains the JWT and the seed for authentication. Empty means no authentication.
	CredentialsFile string
	// CAFile contains the certificates of the trusted authorities. It replaces those of the system, and requires TLS.
	CAFile string
	// CertFile and KeyFile contain the client certificate and its private key.
	CertFile, KeyFile string
	// Name identifies this connection in the server's reports. Empty means "fanmail".
	Name string
	// Partitions is the number of partitions, 1 to partition.MaxCount.
	Partitions int
	// Lease is how long a task, a published event or a login stays with its holder, unless the holder extends it.
	Lease time.Duration
	// Replicas is the number of servers that keep a copy of each stream, 1 to 5.
	Replicas int
	// PublishedBytes, FanoutBytes, LoginBytes and DeadLetterBytes are the sizes of the streams, in bytes. An
	// existing larger stream keeps its size.
	PublishedBytes, FanoutBytes, LoginBytes, DeadLetterBytes int64
	// RequestTimeout is how long a request waits for the answer of the server. 0 means DefaultRequestTimeout.
	RequestTimeout time.Duration
	// DrainTimeout is how long Take, FetchPublished and FetchLogins wait after their context has ended. In this time they hand
	// back events that the server has already sent. The server hands out a later event again when its lease has ended.
	// 0 means DefaultDrainTimeout.
	DrainTimeout time.Duration
	// Now is the clock that measures ages of events. It must agree with the server's clock. Nil means time.Now.
	Now func() time.Time
	// Logger receives the log lines about the connection. The zero Logger writes nothing.
	Logger zerolog.Logger
	// Metrics is the registry of the metrics; nil means none.
	Metrics prometheus.Registerer
}

func (o Options) withDefaults() Options {
	o.Name = cmp.Or(o.Name, "fanmail")
	o.RequestTimeout = cmp.Or(o.RequestTimeout, DefaultRequestTimeout)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, DefaultDrainTimeout)
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the default of the injected clock
	}
	return o
}

var _ bus.Bus = (*Bus)(nil)

// Bus is a connection to the streams. It implements bus.Bus.
type Bus struct {
	opts Options
	nc   *nats.Conn
	js   jetstream.JetStream

	unacknowledged *semaphore.Weighted
	// letters keeps the stream of dead letters as it is while Save runs.
	letters     *semaphore.Weighted
	complaints  zerolog.Logger
	reconnected broadcast
	backlog     backlogCache
	metrics     metrics
	closed      chan struct{}
	closeOnce   sync.Once
}

// Connect connects to the server and declares the streams and consumers. A lost connection is restored without limit. Close
// the Bus after its last use.
func Connect(ctx context.Context, opts Options) (*Bus, error) {
	if (opts.Server == nil) == (opts.URL == "") {
		return nil, errors.New("natsbus: connect: give either a server or a URL")
	}
	opts = opts.withDefaults()
	if err := partition.ValidateCount(opts.Partitions); err != nil {
		return nil, fmt.Errorf("natsbus: connect: %w", err)
	}
	b := &Bus{
		opts:           opts,
		unacknowledged: semaphore.NewWeighted(maxUnacknowledged),
		letters:        semaphore.NewWeighted(allLetters),
		complaints:     opts.Logger.Sample(&zerolog.BurstSampler{Burst: 1, Period: complaintPeriod}),
		reconnected:    broadcast{ch: make(chan struct{})},
		closed:         make(chan struct{}),
		metrics:        newMetrics(),
	}
	if err := b.open(ctx); err != nil {
		b.Close()
		return nil, err
	}
	b.register(opts.Metrics)
	return b, nil
}

func (b *Bus) open(ctx context.Context) (err error) {
	logger := b.opts.Logger
	natsOpts := []nats.Option{
		nats.Name(b.opts.Name),
		nats.Timeout(b.opts.RequestTimeout),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.PingInterval(pingEvery),
		nats.MaxPingsOutstanding(pingsUnanswered),
		nats.IgnoreAuthErrorAbort(), // an operator may add the credentials to the server later
		// Without a connection, sending fails at once. A buffer would hide the failure from every caller.
		nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				b.metrics.disconnects.Inc()
				logger.Warn().Err(err).Msg("lost the connection to the bus")
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) {
			logger.Info().Msg("the connection to the bus is restored")
			b.reconnected.send()
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			b.complaints.Warn().Err(err).Msg("trouble on the connection to the bus")
		}),
	}
	if b.opts.Server != nil {
		natsOpts = append(natsOpts, nats.InProcessServer(b.opts.Server))
	}
	security, err := b.opts.security()
	if err != nil {
		return fmt.Errorf("natsbus: connect: %w", err)
	}
	if b.nc, err = nats.Connect(b.opts.URL, append(natsOpts, security...)...); err != nil {
		return fmt.Errorf("natsbus: connect: %w: %w", bus.ErrUnavailable, explainTLS(err))
	}
	if err := checkVersion(b.nc.ConnectedServerVersion()); err != nil {
		return err
	}
	if err := checkMaxPayload(b.nc.MaxPayload()); err != nil {
		return err
	}
	b.js, err = jetstream.New(b.nc,
		jetstream.WithDefaultTimeout(b.opts.RequestTimeout),
		jetstream.WithPublishAsyncTimeout(b.opts.RequestTimeout),
		jetstream.WithPublishAsyncMaxPending(2*maxUnacknowledged)) // above the limit that emit keeps, because a publish would stall and fail at it
	if err != nil {
		return fmt.Errorf("natsbus: connect: %w", err)
	}
	return b.declare(ctx)
}

// checkVersion refuses servers before 2.11, because they ignore the batch in a direct get.
func checkVersion(version string) error {
	var major, minor int
	if _, err := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d", &major, &minor); err != nil {
		return fmt.Errorf("natsbus: connect: %w: the server's version is %q", ErrIncompatible, version)
	}
	if major < 2 || major == 2 && minor < 11 {
		return fmt.Errorf("natsbus: connect: %w: the server is version %s, and has to be 2.11 or later", ErrIncompatible, version)
	}
	return nil
}

// checkMaxPayload refuses servers that could refuse a shortened dead letter.
func checkMaxPayload(size int64) error {
	if size < minMaxPayload {
		return fmt.Errorf("natsbus: connect: %w: the server's max_payload is %d bytes, and has to be at least %d", ErrIncompatible, size, minMaxPayload)
	}
	return nil
}

// Healthy implements bus.Monitor.
func (b *Bus) Healthy(ctx context.Context) error {
	_, err := b.js.Stream(ctx, FanoutStream)
	return classify(ctx, "check health", err)
}

// Clock returns the time of the server that leads the stream of tasks, at some moment of the call. Events have the times of such servers.
func (b *Bus) Clock(ctx context.Context) (time.Time, error) {
	stream, err := b.js.Stream(ctx, FanoutStream)
	if err != nil {
		return time.Time{}, classify(ctx, "read the clock", err)
	}
	return stream.CachedInfo().TimeStamp, nil
}

// Close sends pending data and closes the connection. Calls that wait return bus.ErrUnavailable. Tasks and events
// without an acknowledgement are handed out again when their lease has ended. Further calls of Close do nothing.
func (b *Bus) Close() {
	b.closeOnce.Do(func() {
		close(b.closed)
		if b.nc == nil {
			return
		}
		if b.nc.IsConnected() {
			if err := b.nc.FlushTimeout(flushWait); err != nil {
				b.opts.Logger.Warn().Err(err).Msg("closing the bus before everything was sent")
			}
		}
		b.nc.Close()
	})
}

func (b *Bus) checkPlace(lane event.Lane, number int) error {
	for _, known := range event.Lanes() {
		if lane == known && number >= 0 && number < b.opts.Partitions {
			return nil
		}
	}
	return fmt.Errorf("natsbus: there is no partition %d in lane %q", number, string(lane))
}

// broadcast wakes all goroutines that wait for the next event of a kind.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

// next returns a channel that is closed at the next event.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ch
}

func (b *broadcast) send() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.ch)
	b.ch = make(chan struct{})
}
