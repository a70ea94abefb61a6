package mongostore

import (
	"fmt"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// The fields of a bucket besides owner and sequence, and those of an entry.
const (
	fieldSlots      = "slots"      // how many slots are taken
	fieldEntries    = "entries"    // the entries and tombstones, in the order of slots
	fieldFloor      = "floor"      // as in bucket.Bucket; bucket 0 has none
	fieldLast       = "last"       // as in bucket.Bucket
	fieldLate       = "late"       // the least id that may be at or below the floor
	fieldDeleted    = "deleted"    // in a bucket: number of tombstones; in an entry: true if it is a tombstone
	fieldTombstones = "tombstones" // their slots and ids

	fieldEntryID = "id"
	fieldSlot    = "slot"
)

// bucketRecord is the stored form of a bucket.
//
// An index on late finds the buckets with late entries. A push that may put an id at or below the floor stores that id in late.
// The appender need not know the floor, so the id may turn out to be above it. Such a bucket is only an extra result of the
// query.
//
// Tombstones are stored twice. In the entries they make the bucket refuse deleted messages. In a list of their own they are
// counted, because a page needs all tombstones but the entries of only two buckets. The tombstone keeps the id of a blanked
// entry.
type bucketRecord struct {
	Version    int32             `bson:"v"`
	Owner      message.UserID    `bson:"owner"`
	Sequence   int64             `bson:"sequence"`
	Slots      int32             `bson:"slots"`
	Entries    []entryRecord     `bson:"entries"`
	Floor      *bson.Binary      `bson:"floor,omitempty"`
	Last       bson.Binary       `bson:"last"`
	Deleted    int64             `bson:"deleted,omitempty"`
	Tombstones []tombstoneRecord `bson:"tombstones,omitempty"`
}

// ofThisVersion is a condition that makes updates skip documents of other versions. An upsert inserts its version.
var ofThisVersion = bson.E{Key: fieldVersion, Value: version}

// entryRecord is the stored form of an entry. A tombstone has only its id, and a blanked one does not have an id either.
type entryRecord struct {
	ID          *bson.Binary   `bson:"id,omitempty"`
	From        message.UserID `bson:"from,omitempty"`
	Body        string         `bson:"body,omitempty"`
	ContentType string         `bson:"content_type,omitempty"`
	Attrs       []byte         `bson:"attrs,omitempty"`
	Recovered   bool           `bson:"recovered,omitempty"`
	Deleted     bool           `bson:"deleted,omitempty"`
}

type tombstoneRecord struct {
	Slot int32        `bson:"slot"`
	ID   *bson.Binary `bson:"id,omitempty"`
}

// encodeEntry returns the stored form of an entry.
func encodeEntry(e *bucket.Entry) (bson.Raw, error) {
	id := uuid(e.ID)
	if e.Deleted {
		return bson.Marshal(entryRecord{ID: &id, Deleted: true})
	}
	r := entryRecord{ID: &id, From: e.From, Body: e.Body, ContentType: e.ContentType, Attrs: e.Attrs, Recovered: e.Recovered}
	return bson.Marshal(r)
}

func (r *entryRecord) entry() (e bucket.Entry, err error) {
	if e.ID, err = optionalID(r.ID); err != nil {
		return bucket.Entry{}, err
	}
	e.From, e.Body, e.ContentType, e.Attrs, e.Recovered, e.Deleted = r.From, r.Body, r.ContentType, r.Attrs, r.Recovered, r.Deleted
	return e, nil
}

// optionalID decodes an id. For nil it returns the zero id.
func optionalID(b *bson.Binary) (message.ID, error) {
	if b == nil {
		return message.ID{}, nil
	}
	return idOf(inboxName, *b)
}

// slots returns how many slots count as taken. Lost entries read as zero entries.
func (r *bucketRecord) slots() int { return max(len(r.Entries), int(r.Slots)) }

// bounds returns the sequence, the floor and the last id of the bucket.
func (r *bucketRecord) bounds() (sequence uint32, floor, last message.ID, err error) {
	if r.Sequence < 0 || r.Sequence > math.MaxUint32 || r.slots() > math.MaxUint8 {
		return 0, floor, last, corrupt(inboxName, fmt.Errorf("bucket %d of %s has %d slots", r.Sequence, r.Owner, r.slots()))
	}
	if floor, err = optionalID(r.Floor); err == nil {
		last, err = idOf(inboxName, r.Last)
	}
	return uint32(r.Sequence), floor, last, err
}

func (r *bucketRecord) bucket() (b bucket.Bucket, err error) {
	b.Owner = r.Owner
	if b.Sequence, b.Floor, b.Last, err = r.bounds(); err != nil {
		return bucket.Bucket{}, err
	}
	b.Cap, b.Base = bucket.Capacity, bucket.FormatBase(b.Sequence)
	b.Entries = make([]bucket.Entry, r.slots())
	for i := range r.Entries {
		if b.Entries[i], err = r.Entries[i].entry(); err != nil {
			return bucket.Bucket{}, err
		}
	}
	return b, nil
}

func (r *bucketRecord) outline() (o bucket.Outline, err error) {
	if o.Sequence, o.Floor, o.Last, err = r.bounds(); err != nil {
		return bucket.Outline{}, err
	}
	o.Cap, o.Base = bucket.Capacity, bucket.FormatBase(o.Sequence)
	o.IDs = make([]message.ID, r.slots())
	for i := range r.Entries {
		if o.IDs[i], err = optionalID(r.Entries[i].ID); err != nil {
			return bucket.Outline{}, err
		}
	}
	return o, nil
}
