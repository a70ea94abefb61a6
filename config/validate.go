package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fanmail/fanmail/internal/duration"
	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// maxEntry bounds body and attrs together.
const maxEntry Size = message.MaxTextBytes

// maxDirect keeps a round of the router short. The recipients of all rounds of a router then take some 200 MiB at most.
const maxDirect = 10_000

// Validate returns an error that lists everything that is wrong with the configuration, a line for each, or nil.
// Each is an *InvalidError.
func (c Config) Validate() error { return c.validate(nil) }

func (c Config) validate(sources map[string]string) error {
	v := validator{sources: sources}
	v.address("addr", c.Addr)
	v.oneOf("store", c.Store, StoreEmbedded, StoreMongoDB)
	v.require("data", c.Data != "", "is empty: it must name a folder")
	within(&v, "partitions", c.Partitions, 1, partition.MaxCount)
	c.times(&v)
	c.limits(&v)
	within(&v, "inbox.bucket_size", c.Inbox.BucketSize, 1, bucket.MaxCapacity)
	c.Recorded().retention(&v)
	c.fanout(&v)
	c.rehydrate(&v)
	within(&v, "retention.every", c.Retention.Every, time.Second, 30*day)
	within(&v, "retention.hold", c.Retention.Hold, 0, 30*day)
	within(&v, "retention.rate", c.Retention.Rate, 1, 1_000_000)
	within(&v, "retention.users_rate", c.Retention.UsersRate, 0, 10_000_000)
	within(&v, "retention.queue", c.Retention.Queue, 1, 10_000_000)
	for _, kind := range c.Identities.List() {
		if err := kind.ValidateFurther(); err != nil {
			v.require("identities.kinds", false, "has %q, which %v", string(kind), err)
		}
	}
	c.nats(&v)
	c.stores(&v)
	c.http(&v)
	c.security(&v)
	v.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	v.oneOf("log.format", c.Log.Format, "auto", "console", "json")
	within(&v, "log.slow_after", c.Log.SlowAfter, 0, day)
	return errors.Join(v.errs...)
}

func (c Config) http(v *validator) {
	within(v, "http.read_header_timeout", c.HTTP.ReadHeaderTimeout, 10*time.Millisecond, day)
	within(v, "http.read_timeout", c.HTTP.ReadTimeout, 10*time.Millisecond, day)
	within(v, "http.idle_timeout", c.HTTP.IdleTimeout, 10*time.Millisecond, day)
	within(v, "http.max_connections", c.HTTP.MaxConnections, 0, 1_000_000)
	within(v, "http.max_header", c.HTTP.MaxHeader, 4*KiB, 16*MiB)
	within(v, "http.memory", c.HTTP.Memory, 32*MiB, 1024*GiB)
	for _, origin := range c.HTTP.OriginList() {
		u, err := url.Parse(origin)
		v.require("http.origins", err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http") && origin == u.Scheme+"://"+u.Host,
			"has %q, which is not an origin: give scheme and host, such as https://app.example.com", origin)
	}
	within(v, "stream.max", c.Stream.Max, 0, 1_000_000)
	within(v, "stream.per_user", c.Stream.PerUser, 1, 1_000_000)
	within(v, "stream.write_timeout", c.Stream.WriteTimeout, 10*time.Millisecond, time.Hour)
	within(v, "stream.heartbeat", c.Stream.Heartbeat, 10*time.Millisecond, time.Hour)
	within(v, "stream.look_every", c.Stream.LookEvery, 10*time.Millisecond, time.Hour)
	// A login may wait that long when its request has been read, and is to be answered then.
	within(v, "http.write_timeout", c.HTTP.WriteTimeout, c.HTTP.ReadTimeout+client.MaxLoginWait, day)
}

func (c Config) stores(v *validator) {
	within(v, "embedded.cache", c.Embedded.Cache, MiB, 1024*GiB)
	within(v, "embedded.memtable", c.Embedded.Memtable, MiB, 2*GiB)
	within(v, "embedded.remembered_owners", c.Embedded.RememberedOwners, 1, 100_000_000)
	within(v, "embedded.table_entries", c.Embedded.TableEntries, 1, 1_000_000_000)
	within(v, "embedded.remembered_messages", c.Embedded.RememberedMessages, 1, 10_000_000)
	within(v, "embedded.min_free", c.Embedded.MinFree, 0, 1024*GiB)
	v.require("mongodb.uri", c.Store != StoreMongoDB || c.MongoDB.URI != "" || c.MongoDB.URIFile != "",
		"is empty: store is mongodb, so it must name the deployment, such as mongodb://127.0.0.1:27017")
	if c.MongoDB.URI != "" {
		v.url("mongodb.uri", c.MongoDB.URI, "mongodb", "mongodb+srv")
	}
	v.require("mongodb.database", databaseName.MatchString(c.MongoDB.Database),
		"is %q: it must be 1 to 38 letters, digits, hyphens and underscores", c.MongoDB.Database)
	within(v, "mongodb.timeout", c.MongoDB.Timeout, 100*time.Millisecond, time.Hour)
	v.require("mongodb.timeout", c.Store != StoreMongoDB || c.MongoDB.Timeout <= c.ClockTolerance/4,
		"is %s: it must be at most a quarter of clock_tolerance, which is %s: lower it to %s, or raise clock_tolerance to %s",
		duration.Text(c.MongoDB.Timeout), duration.Text(c.ClockTolerance), duration.Text(c.ClockTolerance/4), duration.Text(4*c.MongoDB.Timeout))
	within(v, "mongodb.bulk_operations", c.MongoDB.BulkOperations, 1, 25_000)
	within(v, "mongodb.bulk_bytes", c.MongoDB.BulkBytes, MiB, 44*MiB)
	within(v, "mongodb.concurrency", c.MongoDB.Concurrency, 1, 1024)
}

var databaseName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,38}$`) // what every deployment takes

// security checks what keeps strangers out.
func (c Config) security(v *validator) {
	v.require("auth.jwt_audience", c.Auth.JWTKeysFile == "" || c.Auth.JWTAudience != "",
		"is empty: with auth.jwt_keys_file it must name what tokens are for, such as fanmail")
	v.require("auth.jwt_keys_file", c.Auth.JWTKeysFile != "" || c.Auth.JWTAudience+c.Auth.JWTIssuer == "",
		"is empty: auth.jwt_audience and auth.jwt_issuer mean nothing without it")
	within(v, "auth.grace", c.Auth.Grace, time.Minute, 30*day)
	v.require("backup.dir", c.Backup.Dir == "" || filepath.IsAbs(c.Backup.Dir), "is %q: it must be an absolute path", c.Backup.Dir)
	v.together("tls.key_file", c.TLS.KeyFile, "tls.cert_file", c.TLS.CertFile)
	v.require("tls.client_ca_file", c.TLS.ClientCAFile == "" || c.TLS.CertFile != "",
		"is set without tls.cert_file: clients show certificates to a server that has one")
	within(v, "rate.sender", c.Rate.Sender, 0, maxRate)
	within(v, "rate.sender_burst", c.Rate.SenderBurst, 1, maxRate)
	within(v, "rate.address", c.Rate.Address, 0, maxRate)
	within(v, "rate.address_burst", c.Rate.AddressBurst, 1, maxRate)
	within(v, "rate.edges", c.Rate.Edges, 0, maxRate)
	within(v, "following.max", c.Following.Max, 0, 1_000_000)
}

// maxRate is more than one process answers in a second.
const maxRate = 1_000_000

func (c Config) times(v *validator) {
	c.Recorded().times(v)
	within(v, "viewed_every", c.ViewedEvery, 0, day)
	within(v, "drain_delay", c.DrainDelay, 0, day)
	within(v, "drain_timeout", c.DrainTimeout, time.Millisecond, day)
}

func (c Config) limits(v *validator) {
	within(v, "limits.body", c.Limits.Body, 1, maxEntry)
	within(v, "limits.attrs", c.Limits.Attrs, 2, maxEntry)
	v.require("limits.body", c.Limits.Body <= maxEntry-min(c.Limits.Attrs, maxEntry),
		"is %s and limits.attrs is %s: together they may have at most %s", c.Limits.Body, c.Limits.Attrs, maxEntry)
	within(v, "limits.recipients", c.Limits.Recipients, 1, message.MaxRecipients)
	within(v, "limits.page", c.Limits.Page, 1, 1000)
	within(v, "limits.batch_lines", c.Limits.BatchLines, 1, 1_000_000)
}

func (c Config) fanout(v *validator) {
	within(v, "fanout.medium_workers", c.Fanout.MediumWorkers, 1, 1024)
	within(v, "fanout.bulk_workers", c.Fanout.BulkWorkers, 1, 1024)
	within(v, "fanout.direct_max", c.Fanout.DirectMax, 1, maxDirect)
	v.require("fanout.medium_max", c.Fanout.MediumMax >= c.Fanout.DirectMax,
		"is %d: it must be at least fanout.direct_max, which is %d", c.Fanout.MediumMax, c.Fanout.DirectMax)
	within(v, "fanout.batch_owners", c.Fanout.BatchOwners, 1, 1_000_000)
	within(v, "fanout.batch_tasks", c.Fanout.BatchTasks, 1, 100_000)
	within(v, "fanout.batch_bytes", c.Fanout.BatchBytes, 128*KiB, 16*GiB)
	within(v, "fanout.class_cache", c.Fanout.ClassCache, 1, 100_000_000)
	within(v, "fanout.class_ttl", c.Fanout.ClassTTL, time.Millisecond, day)
	within(v, "fanout.resume_after", c.Fanout.ResumeAfter, time.Millisecond, day)
	within(v, "fanout.resume_every", c.Fanout.ResumeEvery, time.Millisecond, day)
	within(v, "fanout.max_attempts", c.Fanout.MaxAttempts, 2, 1_000_000)
	within(v, "fanout.stuck_after", c.Fanout.StuckAfter, time.Second, day)
}

func (c Config) rehydrate(v *validator) {
	within(v, "inbox.filter_buckets", c.Inbox.FilterBuckets, 2, 1_000_000)
	within(v, "inbox.filter_messages", c.Inbox.FilterMessages, 2, 1_000_000)
	within(v, "rehydrate.limit", c.Rehydrate.Limit, 0, 100_000_000)
	within(v, "rehydrate.workers", c.Rehydrate.Workers, 1, 1024)
	within(v, "rehydrate.queue", c.Rehydrate.Queue, 1, 10_000_000)
	within(v, "rehydrate.lease", c.Rehydrate.Lease, 100*time.Millisecond, userstate.MaxLease)
	within(v, "rehydrate.reap_every", c.Rehydrate.ReapEvery, time.Millisecond, day)
	within(v, "rehydrate.page", c.Rehydrate.Page, 1, 10_000)
}

func (c Config) nats(v *validator) {
	if c.NATS.Listen != "" && v.address("nats.listen", c.NATS.Listen) {
		host, _, _ := net.SplitHostPort(c.NATS.Listen)
		ip := net.ParseIP(host)
		v.require("nats.listen", host == "localhost" || ip != nil && ip.IsLoopback(),
			"is %q: the embedded server has no authentication, so it listens on a loopback address only, such as 127.0.0.1:4222", c.NATS.Listen)
	}
	if c.NATS.URL != "" {
		v.url("nats.url", c.NATS.URL, "nats", "tls", "ws", "wss")
	}
	v.together("nats.key_file", c.NATS.KeyFile, "nats.cert_file", c.NATS.CertFile)
	v.require("nats.url", c.NATS.URL != "" || c.NATS.CredentialsFile+c.NATS.CAFile+c.NATS.CertFile == "",
		"is empty: the embedded server needs no nats.credentials_file, nats.ca_file or nats.cert_file: leave them empty, or set nats.url")
	within(v, "nats.replicas", c.NATS.Replicas, 1, 5)
	v.require("nats.replicas", c.NATS.URL != "" || c.NATS.Replicas == 1, "is %d: the embedded NATS server is only one: set nats.url", c.NATS.Replicas)
	within(v, "nats.ack_wait", c.NATS.AckWait, 100*time.Millisecond, time.Hour)
	within(v, "nats.max_published", c.NATS.MaxPublished, MiB, 1024*GiB)
	within(v, "nats.max_fanout", c.NATS.MaxFanout, MiB, 1024*GiB)
	within(v, "nats.max_login", c.NATS.MaxLogin, MiB, 1024*GiB)
	within(v, "nats.max_dlq", c.NATS.MaxDLQ, MiB, 1024*GiB)
}

// validator collects what is wrong.
type validator struct {
	sources map[string]string
	errs    []error
}

func (v *validator) require(key string, holds bool, format string, args ...any) {
	if !holds {
		v.errs = append(v.errs, invalid(v.sources[key], key, format, args...))
	}
}

func (v *validator) address(key, value string) bool {
	_, port, err := net.SplitHostPort(value)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	v.require(key, err == nil, "is %q: it must be host:port with a port from 0 to 65535, such as 127.0.0.1:8080", value)
	return err == nil
}

// together refuses one of two files without the other.
func (v *validator) together(key, value, otherKey, other string) {
	v.require(key, value == "" || other != "", "is set without %s: set both, or neither", otherKey)
	v.require(otherKey, other == "" || value != "", "is set without %s: set both, or neither", key)
}

// url refuses addresses with another scheme than the given ones. What it refuses it does not repeat: it may hold a password
// where String does not look for one.
func (v *validator) url(key string, value URL, schemes ...string) {
	v.require(key, value.check(schemes) == nil, "%v", value.check(schemes))
}

func (v *validator) oneOf(key, value string, allowed ...string) {
	v.require(key, slices.Contains(allowed, value), "is %q: it must be one of %s", value, strings.Join(allowed, ", "))
}

func within[T cmp.Ordered](v *validator, key string, value, least, greatest T) {
	v.require(key, value >= least && value <= greatest, "is %s: it must be from %s to %s", valueText(value), valueText(least), valueText(greatest))
}

func valueText(value any) string {
	if d, ok := value.(time.Duration); ok {
		return duration.Text(d)
	}
	return fmt.Sprint(value)
}
