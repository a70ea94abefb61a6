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
	fieldCap        = "cap"        // of a sized bucket: how many slots it has
	fieldBase       = "base"       // of a sized bucket: how many slots all earlier buckets have; absent if 0
	fieldDecl       = "decl"       // as in bucket.Bucket; absent if 0
	fieldFacets     = "facets"     // those of the entries for the declarations up to decl, each once
	fieldEntries    = "entries"    // the entries and tombstones, in the order of slots
	fieldFloor      = "floor"      // as in bucket.Bucket; bucket 0 has none
	fieldLast       = "last"       // as in bucket.Bucket
	fieldLate       = "late"       // the least id that may be at or below the floor
	fieldDeleted    = "deleted"    // in a bucket: number of tombstones, negative in a stub; in an entry: true if it is a tombstone
	fieldTombstones = "tombstones" // their slots and ids
	fieldStub       = "stub"       // true if it is a stub

	fieldEntryID    = "id"
	fieldEntryFrom  = "from"
	fieldEntryAttrs = "attrs"
	fieldExpired    = "expired" // true if the entry was emptied
	fieldSlot       = "slot"
)

// bucketRecord is the stored form of a bucket.
//
// An index on late finds the buckets with late entries. A push that may put an id at or below the floor stores that id in late.
// The appender need not know the floor, so the id may turn out to be above it. Such a bucket is only an extra result of the
// query.
//
// A sized bucket, a stub and a bucket with expired entries have version 2, so that earlier releases refuse them. All others have bucket.Capacity and bucket.FormatBase.
// A bucket with a decl has version 3, and tells its capacity and base. No update changes a decl, or lowers a version.
//
// Facets only come, with the entries in one update, and go together when the bucket becomes a stub. An index on facets finds the buckets of which
// an entry may meet a condition.
//
// Tombstones are stored twice. In the entries they make the bucket refuse deleted messages. In a list of their own they are
// counted, because a page needs all tombstones but the entries of only two buckets. The index on deleted holds the number of every bucket that
// has, or as a stub had, tombstones: pages count those above zero, and the sum of the absolute values is that of all tombstones ever. The tombstone keeps the id of a blanked
// entry.
type bucketRecord struct {
	Version    int32             `bson:"v"`
	Owner      message.UserID    `bson:"owner"`
	Sequence   int64             `bson:"sequence"`
	Slots      int32             `bson:"slots"`
	Cap        int32             `bson:"cap,omitempty"`
	Base       int64             `bson:"base,omitempty"`
	Decl       int32             `bson:"decl,omitempty"`
	Entries    []entryRecord     `bson:"entries"`
	Floor      *bson.Binary      `bson:"floor,omitempty"`
	Last       bson.Binary       `bson:"last"`
	Deleted    int64             `bson:"deleted,omitempty"`
	Tombstones []tombstoneRecord `bson:"tombstones,omitempty"`
	Stub       bool              `bson:"stub,omitempty"`
	Purged     *bson.Binary      `bson:"purged,omitempty"`
}

// versionSized is the version of a sized bucket, from format level 3 on.
const versionSized = 2

// versionDeclared is the version of a bucket with a decl, from format level 5 on.
const versionDeclared = 3

var (
	// ofThisVersion is a condition that makes updates skip documents of other versions.
	ofThisVersion = bson.E{Key: fieldVersion, Value: in([]int{version, versionSized, versionDeclared})}
	// undeclared is a condition on a bucket: it has no decl.
	undeclared = bson.E{Key: fieldVersion, Value: in([]int{version, versionSized})}
	// declared is a condition on a bucket: it has one.
	declared = bson.E{Key: fieldVersion, Value: versionDeclared}
)

// versionIs is a condition on a bucket with a decl, or without one: it has such a version.
func versionIs(decl int) bson.E {
	if decl > 0 {
		return declared
	}
	return undeclared
}

// sized reports whether a bucket is sized. One whose numbers are those of the format is not, whatever is below it.
func sized(sequence uint32, capacity int, base int64) bool {
	return capacity != bucket.Capacity || base != bucket.FormatBase(sequence)
}

// capIs is a condition on a bucket: it has a capacity.
func capIs(capacity int) bson.E {
	if capacity == bucket.Capacity {
		return bson.E{Key: fieldCap, Value: in([]any{capacity, nil})} // or none is stored
	}
	return bson.E{Key: fieldCap, Value: capacity}
}

// entryRecord is the stored form of an entry. A tombstone has only its id, and a blanked one does not have an id either.
type entryRecord struct {
	ID          *bson.Binary   `bson:"id,omitempty"`
	From        message.UserID `bson:"from,omitempty"`
	Body        string         `bson:"body,omitempty"`
	ContentType string         `bson:"content_type,omitempty"`
	Attrs       []byte         `bson:"attrs,omitempty"`
	Recovered   bool           `bson:"recovered,omitempty"`
	Deleted     bool           `bson:"deleted,omitempty"`
	Expired     bool           `bson:"expired,omitempty"`
}

// contentFields are the fields of an entry that it loses when it expires.
var contentFields = []string{fieldEntryFrom, "body", "content_type", fieldEntryAttrs, "recovered"}

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
	e.Expired = r.Expired
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

// maxSlots is far above the capacity of any bucket.
const maxSlots = 1 << 15

// bounds returns the outline of the bucket without its ids.
func (r *bucketRecord) bounds() (o bucket.Outline, err error) {
	if r.Sequence < 0 || r.Sequence > math.MaxUint32 || r.slots() > maxSlots || r.Cap < 0 || r.Base < 0 || r.Decl < 0 {
		return o, corrupt(inboxName, fmt.Errorf("bucket %d of %s has %d of %d slots", r.Sequence, r.Owner, r.slots(), r.Cap))
	}
	o.Sequence = uint32(r.Sequence)
	o.Cap, o.Base = r.size()
	o.Decl = int(r.Decl)
	if o.Floor, err = optionalID(r.Floor); err == nil {
		o.Last, err = idOf(inboxName, r.Last)
	}
	return o, err
}

// size returns the capacity and the base.
func (r *bucketRecord) size() (capacity int, base int64) {
	if r.Cap == 0 {
		return bucket.Capacity, bucket.FormatBase(uint32(r.Sequence)) //nolint:gosec // bounds checks it
	}
	return int(r.Cap), r.Base
}

func (r *bucketRecord) bucket() (b bucket.Bucket, err error) {
	o, err := r.bounds()
	if err != nil {
		return bucket.Bucket{}, err
	}
	b = bucket.Bucket{Owner: r.Owner, Sequence: o.Sequence, Cap: o.Cap, Base: o.Base, Decl: o.Decl, Floor: o.Floor, Last: o.Last, Stub: r.Stub}
	if b.Purged, err = optionalID(r.Purged); err != nil || b.Stub {
		return b, err
	}
	b.Entries = make([]bucket.Entry, r.slots())
	for i := range r.Entries {
		if b.Entries[i], err = r.Entries[i].entry(); err != nil {
			return bucket.Bucket{}, err
		}
	}
	return b, nil
}

func (r *bucketRecord) outline() (o bucket.Outline, err error) {
	if o, err = r.bounds(); err != nil {
		return bucket.Outline{}, err
	}
	if o.Stub = r.Stub; o.Stub {
		return o, nil
	}
	o.IDs = make([]message.ID, r.slots())
	for i := range r.Entries {
		if o.IDs[i], err = optionalID(r.Entries[i].ID); err != nil {
			return bucket.Outline{}, err
		}
	}
	return o, nil
}
