package pebblestore

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// EngineOptions returns the options with which Pebble is opened, of their defaults where none are given.
func EngineOptions(opts Options) *pebble.Options {
	opts.CacheBytes, opts.MemTableBytes = 0, 0
	opts, err := opts.withDefaults()
	if err != nil {
		panic(err)
	}
	return engineOptions(opts, newFiles("store", opts), nil, newStalls(opts.Logger))
}

// MessageKey returns the key of a message.
func MessageKey(id message.ID) []byte { return idKey(spaceMessages, id) }

// EntryKey returns the key of an entry.
func EntryKey(partition int, owner message.UserID, sequence uint32, slot int) []byte {
	return appendPlace(appendOwner(nil, spaceInbox, partition, owner), sequence, slot)
}

// EncodeEntry returns the value of an entry that came in its turn.
func EncodeEntry(e bucket.Entry) []byte {
	return (&entryRecord{id: e.ID, last: e.ID, content: encodeContent(&e)}).appendTo(nil)
}

// EntryRecord is a record of the inbox.
type EntryRecord struct {
	Deleted         bool
	Recovered       bool
	ID, Floor, Last message.ID
	Content         string
}

// Encode returns the encoded record, and the length that was foretold.
func (r EntryRecord) Encode() ([]byte, int) {
	e := entryRecord{deleted: r.Deleted, recovered: r.Recovered, id: r.ID, floor: r.Floor, last: r.Last, content: []byte(r.Content)}
	return e.appendTo(nil), e.length()
}

// ParseEntry reads an encoded record.
func ParseEntry(b []byte) (EntryRecord, error) {
	r, err := parseEntry(b)
	return EntryRecord{Deleted: r.deleted, Recovered: r.recovered, ID: r.id, Floor: r.floor, Last: r.last, Content: string(r.content)}, err
}

// PlaceOf returns the bucket and slot of an entry's key.
func PlaceOf(key []byte) (uint32, int) { return placeOf(key) }

// FollowerKey returns the key of an edge among its followee's.
func FollowerKey(followee message.Source, partition int, follower message.UserID) []byte {
	return append(followersPrefix(followee, partition), follower...)
}

// AuthorKey returns the key of a message among its author's, and the id that is read from it.
func AuthorKey(from message.UserID, id message.ID) ([]byte, message.ID) {
	key := sourceKey(from.Source(), id)
	return key, idOf(key)
}

// NamingKey returns the key of a message among those that name a user, and the id that is read from it.
func NamingKey(user message.UserID, id message.ID) ([]byte, message.ID) {
	key := namingKey(user, id)
	return key, idOf(key)
}

// LeaseKey returns the key of a rehydration, and the user that is read from it.
func LeaseKey(until time.Time, user message.UserID) ([]byte, message.UserID) {
	key := leaseKey(until, user)
	return key, leaseUser(key)
}

// EncodeState returns the value of a state.
func EncodeState(st userstate.State) []byte { return encodeState(st) }

// ParseState reads an encoded state.
func ParseState(user message.UserID, b []byte) (userstate.State, error) {
	st := userstate.State{User: user}
	err := parseState(&st, b)
	return st, err
}

// ExpiryKey returns the key of an expiry.
func ExpiryKey(expires time.Time, from message.UserID, key string) []byte {
	h := hashKey(from, key)
	return append(timePrefix(spaceExpiries, expires), h[:]...)
}

// ScanKey returns the key of a scan, and the partition that is read from it.
func ScanKey(id message.ID, partition int) ([]byte, int) {
	key := scanKey(id, partition)
	return key, partitionOf(key)
}

// After returns the least key above all with a prefix.
func After(prefix []byte) []byte { return after(prefix) }

// Record is a key and a value as they are stored.
type Record struct {
	Name       string
	Key, Value []byte
}

// JudgedMessage returns the records of a stored message.
func JudgedMessage(m message.Stored) []Record {
	value := encodeMessage(m.Message)
	setStamp(value, m.ID, m.Stamp)
	return []Record{
		{"message", idKey(spaceMessages, m.ID), value},
		{"author", sourceKey(m.From.Source(), m.ID), encodeJudgedTime(judgedTime(m.ID, m.Stamp))},
	}
}

// TopicalMessage returns the records of a stored message with topics.
func TopicalMessage(m message.Stored) []Record {
	value := encodeMessage(m.Message)
	setStamp(value, m.ID, m.Stamp)
	records := []Record{{"message", idKey(spaceMessages, m.ID), value}}
	for _, source := range m.Sources() {
		records = append(records, Record{source.String(), sourceKey(source, m.ID), encodeJudgedTime(judgedTime(m.ID, m.Stamp))})
	}
	return records
}

// Records returns one record of each kind. The states are of one user, and the message is valid.
func Records(m message.Message, st, rehydrating userstate.State, e follow.Edge, scan progress.Scan, k message.Key, at time.Time) []Record {
	const p = 7
	h := hashKey(k.From, k.Key)
	stored := JudgedMessage(message.Stored{Message: m, Stamp: message.Stamp{StoredAt: at}})
	entry := bucket.EntryOf(m)
	late := entryRecord{id: m.ID, last: k.ID, content: encodeContent(&entry)}
	first := entryRecord{id: m.ID, last: m.ID, floor: k.ID, content: encodeContent(&entry)}
	recovered := entryRecord{id: m.ID, last: m.ID, recovered: true, content: encodeContent(&entry)}
	tombstone := entryRecord{id: m.ID, last: m.ID, deleted: true}
	blank := entryRecord{last: m.ID, deleted: true}
	owner := st.User
	return []Record{
		{"format", []byte{byte(spaceFormat)}, encodeValue(formatRecord{Partitions: 16, Capacity: bucket.Capacity})},
		stored[0],
		stored[1],
		{"naming", namingKey(owner, m.ID), nil},
		{"pending", idKey(spacePending, m.ID), encodeValue(m.From)},
		{"idempotency key", h.key(), encodeValue(recordOf(k))},
		{"expiry", recordOf(k).expiry(h), nil},
		{"entry", EntryKey(p, owner, 258, 3), EncodeEntry(entry)},
		{"late entry", EntryKey(p, owner, 258, 4), late.appendTo(nil)},
		{"first entry", EntryKey(p, owner, 259, 0), first.appendTo(nil)},
		{"recovered entry", EntryKey(p, owner, 258, 6), recovered.appendTo(nil)},
		{"tombstone", EntryKey(p, owner, 258, 5), tombstone.appendTo(nil)},
		{"blank tombstone", EntryKey(p, owner, 258, 7), blank.appendTo(nil)},
		{"late mark", appendBucket(appendOwner(nil, spaceLate, p, owner), 258), encodeID(m.ID)},
		{"deletions", appendOwner(nil, spaceDeleted, p, owner), encodeTotal(3)},
		{"deletion", appendPlace(appendOwner(nil, spaceDeleted, p, owner), 258, 5), encodeID(m.ID)},
		{"user", appendUser(nil, p, owner), encodeState(st)},
		{"user being rehydrated", appendUser(nil, p, owner), encodeState(rehydrating)},
		{"lease", leaseKey(rehydrating.Lease.Until, owner), nil},
		EdgeRecords(e)[0], EdgeRecords(e)[1],
		{"plan", idKey(spacePlans, m.ID), encodePlan("medium", at)},
		{"scan", scanKey(m.ID, p), encodeScan(scan)},
	}
}

// RoundRecord returns the record of the walk over all users.
func RoundRecord(r retention.Round) Record {
	return Record{"walk", roundKey, encodeValue(roundRecordOf(r, r.Revision))}
}

// CountsRecords returns the row of a process, and the totals.
func CountsRecords(p settings.Process, t settings.Totals) []Record {
	return []Record{{"process", processKey(p.Name), encodeProcess(p)}, {"totals", totalsKey, encodeTotals(t, t.Revision)}}
}

// EdgeRecords returns the two records of an edge whose follower is in partition 7.
func EdgeRecords(e follow.Edge) []Record {
	return []Record{
		{"follower", FollowerKey(e.Followee, 7, e.Follower), encodeSpans(e)},
		{"following", append(followingPrefix(e.Follower), e.Followee...), encodeSpans(e)},
	}
}

// TopicRecord returns the record of a topic.
func TopicRecord(r topic.Record) Record { return Record{"topic", topicKey(r.Topic), encodeTopic(r)} }

// FlagsRecord returns the record of the flags of an inbox.
func FlagsRecord(r flag.Record) Record {
	return Record{"flags", appendOwner(nil, spaceFlags, 7, r.Owner), encodeFlags(r)}
}

// ParseTopic reads an encoded topic.
func ParseTopic(t message.Topic, value []byte) (topic.Record, error) { return parseTopic(t, value) }

// Engine returns the database below.
func (db *DB) Engine() *pebble.DB { return db.engine }

// The bounds of large pushes.
const (
	BulkPushes = bulkPushes
	Crowded    = crowded
)

// WithoutCompactions returns options that leave files as they are.
func WithoutCompactions(opts Options) Options {
	opts.noCompactions = true
	return opts
}

// CloseEngine closes Pebble and leaves the store open, so that every use of Pebble panics, also a write. Do not call Close afterwards.
func (db *DB) CloseEngine() error {
	db.fatal = func(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
	db.files.open.Store(false)
	return errors.Join(db.engine.Close(), db.lock.Close())
}

// OnPause sets what is called instead of a pause before a table is created.
func (db *DB) OnPause(pause func()) { db.files.pause = func(time.Duration) { pause() } }

// AwaitsReservation reports whether a call waits for a reservation.
func (db *DB) AwaitsReservation() bool {
	db.inbox.reservations.mu.Lock()
	defer db.inbox.reservations.mu.Unlock()
	return db.inbox.reservations.released != nil
}

// HeldLocks returns how many locks and reservations of the store calls hold.
func (db *DB) HeldLocks() (held int) {
	type lock interface {
		TryLock() bool
		Unlock()
	}
	count := func(l lock) {
		if !l.TryLock() {
			held++
			return
		}
		l.Unlock()
	}
	held += len(db.inbox.reservations.lists)
	count(&db.calls)
	count(&db.ingesting)
	for _, mu := range []*sync.Mutex{&db.settings.mu, &db.messages.syncing.mu} {
		count(mu)
	}
	all := []stripes{db.messages.locks, db.keys.locks, db.inbox.locks, db.users.locks, db.edges.locks, db.progress.locks, db.flags.locks}
	for _, s := range all {
		for i := range s {
			count(&s[i])
		}
	}
	return held
}

// Syncing reports whether an insert of a message is under way.
func (db *DB) Syncing(id message.ID) bool { return db.messages.syncing.has(id) }

// PanicInGet panics while it has the value of a key.
func (db *DB) PanicInGet(key []byte) error {
	_, err := db.get(key, func([]byte) error { panic("injected") })
	return err
}

// BreakTail makes each push to an owner panic, until the returned function is called.
func (db *DB) BreakTail(owner message.UserID) (mend func()) {
	lock := db.LockOf(owner)
	tails := &db.inbox.tails.shards[lock]
	whole := *tails
	*tails = shard{taken: -2} // has no place for the owner, and makes none
	return func() { *tails = whole }
}

// RemovedTombstones returns how many tombstones an inbox has lost with the buckets that were removed.
func RemovedTombstones(db *DB, owner message.UserID) (int64, error) {
	r, err := db.inbox.removedBy(owner)
	return r.tombstones, err
}

// LoseEntry removes the record of an entry, as no store does.
func LoseEntry(db *DB, owner message.UserID, sequence uint32, slot int) error {
	return db.engine.Delete(appendPlace(db.inbox.prefix(spaceInbox, owner), sequence, slot), pebble.Sync)
}

// EmptiedRecords returns the records of an emptied entry and of removed buckets.
func EmptiedRecords(id, floor, last message.ID, owner message.UserID) []Record {
	const p = 7
	place := appendOwner(nil, spaceInbox, p, owner)
	empty := entryRecord{id: id, floor: floor, last: last, recovered: true, content: []byte("content")}
	empty.expire()
	gone := removed{lowest: 3, floor: floor, tombstones: 4}
	return []Record{
		{"expired entry", appendPlace(place, 3, 0), empty.appendTo(nil)},
		{"removed", appendOwner(nil, spaceRemoved, p, owner), gone.encode()},
	}
}

// ParseRemoved reports whether a value is that of removed buckets, and encodes it again.
func ParseRemoved(value []byte) ([]byte, error) {
	r, err := parseRemoved(value)
	return r.encode(), err
}

// IdentityRecords returns an identity before and after it is in force, and the list of its user.
func IdentityRecords(r identity.Record) []Record {
	inForce := r
	inForce.InForce = true
	list := identityList{Revision: r.Number, Items: []identityItem{{Kind: r.Identity.Kind, Value: r.Identity.Value, Number: r.Number}}}
	return []Record{
		{Name: "identity that is claimed", Key: identityKey(r.Identity), Value: encodeValue(identityRecordOf(r))},
		{Name: "identity in force", Key: identityKey(r.Identity), Value: encodeValue(identityRecordOf(inForce))},
		{Name: "list of identities", Key: listKey(r.User), Value: encodeValue(list)},
	}
}

// LockOf returns the number of an owner's lock.
func (db *DB) LockOf(owner message.UserID) uint64 {
	return db.inbox.keyed(&bucket.Push{Owner: owner}).lock
}

// Meet reports whether two lists of owners in one partition have one in common.
func Meet(x, y []message.UserID) bool {
	list := func(owners []message.UserID) (list []keyed) {
		for _, owner := range owners {
			list = append(list, keyed{name: owner})
		}
		return list
	}
	return meet(list(x), list(y))
}
