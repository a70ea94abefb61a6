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

	"github.com/fanmail/fanmail/pkg/identity"
)

// Config is a whole configuration. The embedded fanmail.yaml says what each key means, and gives its default. Durations are written
// like 90s or 720h, sizes like 64KiB.
type Config struct {
	Addr           string        `key:"addr"`
	Insecure       bool          `key:"insecure"`
	Store          string        `key:"store"`
	Data           string        `key:"data"`
	Partitions     int           `key:"partitions"`
	DormantAfter   time.Duration `key:"dormant_after"`
	ClockTolerance time.Duration `key:"clock_tolerance"`
	PublishSlack   time.Duration `key:"publish_slack"`
	ViewedEvery    time.Duration `key:"viewed_every"`
	Console        bool          `key:"console"`
	DrainDelay     time.Duration `key:"drain_delay"`
	DrainTimeout   time.Duration `key:"drain_timeout"`

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
	Stream      Stream      `key:"stream"`
	Auth        Auth        `key:"auth"`
	TLS         TLS         `key:"tls"`
	Backup      Backup      `key:"backup"`
	Rate        Rate        `key:"rate"`
	Log         Log         `key:"log"`
}

// Limits bounds what a request may hold and ask for.
type Limits struct {
	Body       Size `key:"body"`
	Attrs      Size `key:"attrs"`
	Recipients int  `key:"recipients"`
	Page       int  `key:"page"`
	BatchLines int  `key:"batch_lines"`
}

// Inbox configures the inboxes.
type Inbox struct {
	BucketSize     int `key:"bucket_size"`
	FilterBuckets  int `key:"filter_buckets"`
	FilterMessages int `key:"filter_messages"`
}

// Idempotency configures idempotency keys.
type Idempotency struct {
	TTL time.Duration `key:"ttl"`
}

// Fanout configures the fan-out workers.
type Fanout struct {
	MediumWorkers int           `key:"medium_workers"`
	BulkWorkers   int           `key:"bulk_workers"`
	DirectMax     int           `key:"direct_max"`
	MediumMax     int           `key:"medium_max"`
	BatchOwners   int           `key:"batch_owners"`
	BatchTasks    int           `key:"batch_tasks"`
	BatchBytes    Size          `key:"batch_bytes"`
	ClassCache    int           `key:"class_cache"`
	ClassTTL      time.Duration `key:"class_ttl"`
	HeadStarts    bool          `key:"head_starts"`
	ResumeAfter   time.Duration `key:"resume_after"`
	ResumeEvery   time.Duration `key:"resume_every"`
	MaxAttempts   int           `key:"max_attempts"`
	StuckAfter    time.Duration `key:"stuck_after"`
}

// Following configures the edges.
type Following struct {
	CountsAsView bool `key:"counts_as_view"`
	Max          int  `key:"max"`
}

// Rehydrate configures the rebuilding of the inboxes of returning users.
type Rehydrate struct {
	Limit     int           `key:"limit"`
	Workers   int           `key:"workers"`
	Queue     int           `key:"queue"`
	Lease     time.Duration `key:"lease"`
	ReapEvery time.Duration `key:"reap_every"`
	Page      int           `key:"page"`
}

// Retention configures what expires, and how this process removes that.
type Retention struct {
	MaxAge    time.Duration `key:"max_age"`
	Newest    int           `key:"newest"`
	Canonical time.Duration `key:"canonical"`
	Every     time.Duration `key:"every"`
	Hold      time.Duration `key:"hold"`
	Rate      int           `key:"rate"`
	UsersRate int           `key:"users_rate"`
	Queue     int           `key:"queue"`
}

// Identities configures the names by which messages can address users.
type Identities struct {
	Kinds string `key:"kinds"`
}

// List returns the further kinds.
func (i Identities) List() []identity.Kind {
	var kinds []identity.Kind
	for _, name := range list(i.Kinds) {
		kinds = append(kinds, identity.Kind(name))
	}
	return kinds
}

// NATS configures the bus, and the NATS server where it is the embedded one.
type NATS struct {
	URL             URL           `key:"url"`
	CredentialsFile string        `key:"credentials_file"`
	CAFile          string        `key:"ca_file"`
	CertFile        string        `key:"cert_file"`
	KeyFile         string        `key:"key_file"`
	Replicas        int           `key:"replicas"`
	Listen          string        `key:"listen"`
	AckWait         time.Duration `key:"ack_wait"`
	MaxPublished    Size          `key:"max_published"`
	MaxFanout       Size          `key:"max_fanout"`
	MaxLogin        Size          `key:"max_login"`
	MaxDLQ          Size          `key:"max_dlq"`
	SyncAlways      bool          `key:"sync_always"`
}

// What Config.Store can be.
const (
	StoreEmbedded = "embedded"
	StoreMongoDB  = "mongodb"
)

// Embedded configures the embedded store.
type Embedded struct {
	Cache              Size `key:"cache"`
	Memtable           Size `key:"memtable"`
	RememberedOwners   int  `key:"remembered_owners"`
	TableEntries       int  `key:"table_entries"`
	RememberedMessages int  `key:"remembered_messages"`
	MinFree            Size `key:"min_free"`
}

// MongoDB configures the store on MongoDB.
type MongoDB struct {
	URI            URL           `key:"uri"`
	URIFile        string        `key:"uri_file"`
	CAFile         string        `key:"ca_file"`
	CertFile       string        `key:"cert_file"`
	Database       string        `key:"database"`
	Timeout        time.Duration `key:"timeout"`
	BulkOperations int           `key:"bulk_operations"`
	BulkBytes      Size          `key:"bulk_bytes"`
	Concurrency    int           `key:"concurrency"`
}

// HTTP configures the HTTP server.
type HTTP struct {
	ReadHeaderTimeout time.Duration `key:"read_header_timeout"`
	ReadTimeout       time.Duration `key:"read_timeout"`
	WriteTimeout      time.Duration `key:"write_timeout"`
	IdleTimeout       time.Duration `key:"idle_timeout"`
	MaxHeader         Size          `key:"max_header"`
	MaxConnections    int           `key:"max_connections"`
	Memory            Size          `key:"memory"`
	Origins           string        `key:"origins"`
}

// OriginList returns the origins of pages that may call the API.
func (h HTTP) OriginList() []string { return list(h.Origins) }

// list returns the parts of a text between commas.
func list(text string) (parts []string) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// Stream configures the streams of inboxes.
type Stream struct {
	Max          int           `key:"max"`
	PerUser      int           `key:"per_user"`
	WriteTimeout time.Duration `key:"write_timeout"`
	Heartbeat    time.Duration `key:"heartbeat"`
	LookEvery    time.Duration `key:"look_every"`
}

// Auth configures authentication. Without either file there is none.
type Auth struct {
	TokensFile  string        `key:"tokens_file"`
	JWTKeysFile string        `key:"jwt_keys_file"`
	JWTAudience string        `key:"jwt_audience"`
	JWTIssuer   string        `key:"jwt_issuer"`
	Grace       time.Duration `key:"grace"`
}

// Authenticates reports whether requests need a token.
func (a Auth) Authenticates() bool { return a.TokensFile != "" || a.JWTKeysFile != "" }

// TLS configures the HTTP server's side of TLS. Without a certificate it speaks plain HTTP.
type TLS struct {
	CertFile     string `key:"cert_file"`
	KeyFile      string `key:"key_file"`
	ClientCAFile string `key:"client_ca_file"`
}

// Backup configures backups of the embedded store.
type Backup struct {
	Dir string `key:"dir"`
}

// Rate bounds how much is accepted in a second.
type Rate struct {
	Sender       int `key:"sender"`
	SenderBurst  int `key:"sender_burst"`
	Address      int `key:"address"`
	AddressBurst int `key:"address_burst"`
	Edges        int `key:"edges"`
}

// Log configures the log.
type Log struct {
	Level     string        `key:"level"`
	Format    string        `key:"format"`
	SlowAfter time.Duration `key:"slow_after"`
}
