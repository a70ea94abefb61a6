// Package config holds Fanmail's configuration: its keys, their defaults, where they are read from, and what is
// allowed.
//
// A key is set by, in this order: a flag, an environment variable, the configuration file, its default. The key
// limits.body is the flag --limits-body and the variable FANMAIL_LIMITS_BODY. The file fanmail.yaml beside this
// package holds every key with its default, its unit and the reason for it; it is the reference that Keys reads.
//
// Nothing that is not known is passed over: a mistyped key or variable is an error that names the nearest known one.
package config

import (
	"strings"
	"time"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Config is a whole configuration. The embedded fanmail.yaml says what each key means. Durations are written like
// 90s or 720h, sizes like 64KiB.
type Config struct {
	// Addr is the host:port the HTTP interface listens on.
	Addr string `key:"addr"`
	// Insecure allows an address that other hosts can reach without authentication.
	Insecure bool `key:"insecure"`
	// Store is where data is kept: StoreEmbedded or StoreMongoDB.
	Store string `key:"store"`
	// Data is the folder of the embedded store and of the embedded NATS server.
	Data string `key:"data"`
	// Partitions is into how many shares users are divided. It is fixed when a store is created.
	Partitions int `key:"partitions"`
	// DormantAfter is how long an inbox is kept warm after its owner last looked.
	DormantAfter time.Duration `key:"dormant_after"`
	// ClockTolerance bounds the differences between clocks: its half is for them and for MongoDB.Timeout.
	ClockTolerance time.Duration `key:"clock_tolerance"`
	// PublishSlack is how long after it was sent a message may become visible.
	PublishSlack time.Duration `key:"publish_slack"`
	// ViewedEvery is how often the page views of an active user are recorded.
	ViewedEvery time.Duration `key:"viewed_every"`
	// DrainDelay is how long a process that is told to terminate still serves, while it says that it is not ready.
	DrainDelay time.Duration `key:"drain_delay"`
	// DrainTimeout is how long work in flight may take to finish on stopping.
	DrainTimeout time.Duration `key:"drain_timeout"`

	Limits      Limits      `key:"limits"`
	Inbox       Inbox       `key:"inbox"`
	Idempotency Idempotency `key:"idempotency"`
	Fanout      Fanout      `key:"fanout"`
	Following   Following   `key:"following"`
	Rehydrate   Rehydrate   `key:"rehydrate"`
	Retention   Retention   `key:"retention"`
	Identities  Identities  `key:"identities"`
	NATS        NATS        `key:"nats"`
	Embedded    Embedded    `key:"embedded"`
	MongoDB     MongoDB     `key:"mongodb"`
	HTTP        HTTP        `key:"http"`
	Auth        Auth        `key:"auth"`
	TLS         TLS         `key:"tls"`
	Rate        Rate        `key:"rate"`
	Log         Log         `key:"log"`
}

// Limits bounds what a request may hold and ask for.
type Limits struct {
	// Body is the greatest size of a message's body.
	Body Size `key:"body"`
	// Attrs is the greatest size of a message's attributes as JSON without white space.
	Attrs Size `key:"attrs"`
	// Recipients is the greatest number of ids in a message's to.
	Recipients int `key:"recipients"`
	// Page is the greatest number of items on a page.
	Page int `key:"page"`
	// BatchLines is the greatest number of lines in a batch request.
	BatchLines int `key:"batch_lines"`
}

// Inbox configures the inboxes.
type Inbox struct {
	// BucketSize is how many slots a bucket has. It is fixed when the database is created.
	BucketSize int `key:"bucket_size"`
	// FilterBuckets is how many buckets a page with a filter, or a count by values, reads at most.
	FilterBuckets int `key:"filter_buckets"`
	// FilterMessages is how many messages these read at most outside of buckets.
	FilterMessages int `key:"filter_messages"`
}

// Idempotency configures idempotency keys.
type Idempotency struct {
	// TTL is how long a key is remembered.
	TTL time.Duration `key:"ttl"`
}

// Fanout configures the fan-out workers.
type Fanout struct {
	// MediumWorkers is how many partitions of the medium lane are worked on at a time.
	MediumWorkers int `key:"medium_workers"`
	// BulkWorkers is how many partitions of the bulk lane are worked on at a time.
	BulkWorkers int `key:"bulk_workers"`
	// DirectMax is the greatest audience that the router delivers to by itself.
	DirectMax int `key:"direct_max"`
	// MediumMax is the greatest audience of the medium lane.
	MediumMax int `key:"medium_max"`
	// BatchOwners is the greatest number of inboxes that one batch appends to.
	BatchOwners int `key:"batch_owners"`
	// BatchTasks is the greatest number of tasks that one batch merges.
	BatchTasks int `key:"batch_tasks"`
	// BatchBytes is the greatest memory of the tasks and messages of one batch.
	BatchBytes Size `key:"batch_bytes"`
	// ClassCache is for how many authors the size of their audience is remembered.
	ClassCache int `key:"class_cache"`
	// ClassTTL is how long it is remembered.
	ClassTTL time.Duration `key:"class_ttl"`
	// HeadStarts is whether named recipients are delivered to before the scan of a large audience reaches them.
	HeadStarts bool `key:"head_starts"`
	// ResumeAfter is how long a fan-out makes no progress before it is taken up again.
	ResumeAfter time.Duration `key:"resume_after"`
	// ResumeEvery is how often such fan-outs are looked for.
	ResumeEvery time.Duration `key:"resume_every"`
	// MaxAttempts is how often a task is handed out before it goes to the dead letters. One of the times may have reached no worker.
	MaxAttempts int `key:"max_attempts"`
	// StuckAfter is how long no call of the store may return before a worker gives up its batch. On MongoDB it is at least three times
	// MongoDB.Timeout, whatever is set.
	StuckAfter time.Duration `key:"stuck_after"`
}

// Following configures the edges.
type Following struct {
	// CountsAsView is whether a user who follows an author, or subscribes to a topic, has been seen by that.
	CountsAsView bool `key:"counts_as_view"`
}

// Rehydrate configures the rebuilding of the inboxes of returning users.
type Rehydrate struct {
	// Limit is the maximum number of missed messages that are copied into the inbox of a returning user; 0 means all.
	Limit int `key:"limit"`
	// Workers is how many inboxes are rebuilt at a time.
	Workers int `key:"workers"`
	// Queue is how many users may wait for that in this process.
	Queue int `key:"queue"`
	// Lease is how long a rehydration may make no progress before it is taken over.
	Lease time.Duration `key:"lease"`
	// ReapEvery is how often the process looks for rehydrations whose worker has died.
	ReapEvery time.Duration `key:"reap_every"`
	// Page is how many messages are read and appended at a time.
	Page int `key:"page"`
}

// Retention configures what expires, and how this process removes that.
type Retention struct {
	// MaxAge is the age at which an entry expires; 0 means never.
	MaxAge time.Duration `key:"max_age"`
	// Newest is how many entries an inbox keeps at least when it expires others; 0 means that it keeps all.
	Newest int `key:"newest"`
	// Canonical is for how long messages are kept at least after they were sent.
	Canonical time.Duration `key:"canonical"`
	// Every is how long after the beginning of a walk over all users the next one begins.
	Every time.Duration `key:"every"`
	// Rate is how many buckets this process empties in a second. It removes ten times as many plans and messages, and as many edges.
	Rate int `key:"rate"`
	// Queue is how many users may wait in this process to be trimmed or emptied.
	Queue int `key:"queue"`
}

// Identities configures the names by which messages can address users.
type Identities struct {
	// Kinds are further kinds of identities, separated by commas. List returns them.
	Kinds string `key:"kinds"`
}

// List returns the further kinds.
func (i Identities) List() []identity.Kind {
	var kinds []identity.Kind
	for name := range strings.SplitSeq(i.Kinds, ",") {
		if name = strings.TrimSpace(name); name != "" {
			kinds = append(kinds, identity.Kind(name))
		}
	}
	return kinds
}

// NATS configures the bus, and the NATS server where it is the embedded one.
type NATS struct {
	// URL is where the NATS servers are, or empty for the embedded one.
	URL URL `key:"url"`
	// CredentialsFile holds the credentials of this process, as nsc writes them; empty for none.
	CredentialsFile string `key:"credentials_file"`
	// CAFile holds the certificates of the authorities that vouch for the NATS servers; empty for the system's.
	CAFile string `key:"ca_file"`
	// CertFile holds the certificate of this process; empty for none.
	CertFile string `key:"cert_file"`
	// KeyFile holds the private key of CertFile.
	KeyFile string `key:"key_file"`
	// Replicas is how many of the NATS servers keep a copy of each stream.
	Replicas int `key:"replicas"`
	// Listen is the loopback host:port for login services and the nats command line, or empty for none.
	Listen string `key:"listen"`
	// AckWait is how long a worker may be silent before its task is handed to another one.
	AckWait time.Duration `key:"ack_wait"`
	// MaxPublished is the greatest size of the stream of published events.
	MaxPublished Size `key:"max_published"`
	// MaxFanout is the greatest size of the stream of fan-out tasks.
	MaxFanout Size `key:"max_fanout"`
	// MaxLogin is the greatest size of the stream of logins.
	MaxLogin Size `key:"max_login"`
	// MaxDLQ is the greatest size of the stream of dead letters.
	MaxDLQ Size `key:"max_dlq"`
	// SyncAlways makes the server sync every event to disk before it confirms it.
	SyncAlways bool `key:"sync_always"`
}

// What Config.Store can be.
const (
	StoreEmbedded = "embedded"
	StoreMongoDB  = "mongodb"
)

// Embedded configures the embedded store.
type Embedded struct {
	// Cache is the size of the block cache.
	Cache Size `key:"cache"`
	// Memtable is the size of one memtable.
	Memtable Size `key:"memtable"`
	// RememberedOwners is for how many owners the end of their inbox is kept in memory.
	RememberedOwners int `key:"remembered_owners"`
	// RememberedMessages is how many messages of 2 KiB the cache of messages has room for.
	RememberedMessages int `key:"remembered_messages"`
	// MinFree is how much of the disk has to be free for messages and edges to be accepted.
	MinFree Size `key:"min_free"`
}

// MongoDB configures the store on MongoDB.
type MongoDB struct {
	// URI is the connection string of the deployment.
	URI URL `key:"uri"`
	// URIFile holds the connection string, in place of URI.
	URIFile string `key:"uri_file"`
	// CAFile holds the certificates of the authorities that vouch for the servers; empty for what the URI says.
	CAFile string `key:"ca_file"`
	// CertFile holds the certificate of this process and its private key; empty for what the URI says.
	CertFile string `key:"cert_file"`
	// Database is the name of the database.
	Database string `key:"database"`
	// Timeout bounds a single operation, retries included.
	Timeout time.Duration `key:"timeout"`
	// BulkOperations is the greatest number of writes that are sent together.
	BulkOperations int `key:"bulk_operations"`
	// BulkBytes is the greatest size of writes that are sent together.
	BulkBytes Size `key:"bulk_bytes"`
	// Concurrency is how many writes that cannot be sent together one call has under way.
	Concurrency int `key:"concurrency"`
}

// HTTP configures the HTTP server.
type HTTP struct {
	// ReadHeaderTimeout is how long a client may take to send a request's header.
	ReadHeaderTimeout time.Duration `key:"read_header_timeout"`
	// ReadTimeout is how long a client may take to send a whole request.
	ReadTimeout time.Duration `key:"read_timeout"`
	// WriteTimeout is how long a request may take from its header until its answer has been taken.
	WriteTimeout time.Duration `key:"write_timeout"`
	// IdleTimeout is how long a connection without requests is kept open.
	IdleTimeout time.Duration `key:"idle_timeout"`
	// MaxHeader is the greatest size of a request's header.
	MaxHeader Size `key:"max_header"`
}

// Auth configures authentication. Without either file there is none.
type Auth struct {
	// TokensFile holds the hashes of tokens, and what each allows.
	TokensFile string `key:"tokens_file"`
	// JWTKeysFile holds the public keys that JSON Web Tokens are signed with.
	JWTKeysFile string `key:"jwt_keys_file"`
	// JWTAudience is what JSON Web Tokens have to name in aud.
	JWTAudience string `key:"jwt_audience"`
	// JWTIssuer is what JSON Web Tokens have to have for their iss; empty if any will do.
	JWTIssuer string `key:"jwt_issuer"`
}

// Authenticates reports whether requests need a token.
func (a Auth) Authenticates() bool { return a.TokensFile != "" || a.JWTKeysFile != "" }

// TLS configures the HTTP server's side of TLS. Without a certificate it speaks plain HTTP.
type TLS struct {
	// CertFile holds the server's certificate, and those between it and its authority.
	CertFile string `key:"cert_file"`
	// KeyFile holds the private key of CertFile.
	KeyFile string `key:"key_file"`
	// ClientCAFile holds the certificates of the authorities that vouch for clients; empty if clients need none.
	ClientCAFile string `key:"client_ca_file"`
}

// Rate bounds how much is accepted in a second.
type Rate struct {
	// Sender is how many messages of one sender are accepted in a second; 0 means any number.
	Sender int `key:"sender"`
	// SenderBurst is how many of them may come at once.
	SenderBurst int `key:"sender_burst"`
	// Address is how many requests of one remote address are answered in a second; 0 means any number.
	Address int `key:"address"`
	// AddressBurst is how many of them may come at once.
	AddressBurst int `key:"address_burst"`
}

// Log configures the log.
type Log struct {
	// Level is the least severe level that is logged.
	Level string `key:"level"`
	// Format is how lines are written.
	Format string `key:"format"`
}

// Default returns the configuration that holds where nothing else is said. The embedded fanmail.yaml gives the
// reason for each value.
func Default() Config {
	limits, rules := message.DefaultLimits(), userstate.DefaultRules()
	return Config{
		Addr:           "127.0.0.1:8080",
		Store:          StoreEmbedded,
		Data:           "./fanmail-data",
		Partitions:     partition.DefaultCount,
		DormantAfter:   rules.DormantAfter,
		ClockTolerance: rules.ClockTolerance,
		PublishSlack:   rules.PublishSlack,
		ViewedEvery:    time.Hour,
		DrainDelay:     5 * time.Second,
		DrainTimeout:   20 * time.Second,
		Limits: Limits{
			Body:       Size(limits.BodyBytes),
			Attrs:      Size(limits.AttrsBytes),
			Recipients: limits.Recipients,
			Page:       200,
			BatchLines: 10_000,
		},
		Inbox:       Inbox{BucketSize: 50, FilterBuckets: 200, FilterMessages: 2000},
		Idempotency: Idempotency{TTL: 24 * time.Hour},
		Fanout: Fanout{
			MediumWorkers: 2,
			BulkWorkers:   2,
			DirectMax:     1000,
			MediumMax:     100_000,
			BatchOwners:   4000,
			BatchTasks:    1024,
			BatchBytes:    32 * MiB,
			ClassCache:    10_000,
			ClassTTL:      time.Minute,
			HeadStarts:    true,
			ResumeAfter:   5 * time.Minute,
			ResumeEvery:   30 * time.Second,
			MaxAttempts:   20,
			StuckAfter:    2 * time.Minute,
		},
		Following: Following{CountsAsView: true},
		Rehydrate: Rehydrate{
			Limit:     1000,
			Workers:   16,
			Queue:     100_000,
			Lease:     30 * time.Second,
			ReapEvery: 5 * time.Second,
			Page:      100,
		},
		Retention: Retention{Every: time.Hour, Rate: 2000, Queue: 10_000, Canonical: 30 * day},
		NATS: NATS{
			Replicas:     1,
			AckWait:      30 * time.Second,
			MaxPublished: GiB,
			MaxFanout:    4 * GiB,
			MaxLogin:     256 * MiB,
			MaxDLQ:       GiB,
		},
		Embedded: Embedded{Cache: 128 * MiB, Memtable: 64 * MiB, RememberedOwners: 500_000, RememberedMessages: 16_384, MinFree: GiB},
		MongoDB: MongoDB{
			Database:       "fanmail",
			Timeout:        10 * time.Second,
			BulkOperations: 1000,
			BulkBytes:      8 * MiB,
			Concurrency:    16,
		},
		HTTP: HTTP{
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       time.Minute,
			WriteTimeout:      3 * time.Minute,
			IdleTimeout:       2 * time.Minute,
			MaxHeader:         64 * KiB,
		},
		Rate: Rate{SenderBurst: 10_000, AddressBurst: 1000},
		Log:  Log{Level: "info", Format: "auto"},
	}
}
