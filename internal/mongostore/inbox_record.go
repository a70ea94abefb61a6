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
// No update changes a decl. Facets only come, with the entries in one update, and go together when the bucket becomes a stub. An index on facets
// finds the buckets of which an entry may meet a condition.
//
// Tombstones are stored twice. In the entries they make the bucket refuse deleted messages. In a list of their own they are
// counted, because a page needs all tombstones but the entries of only two buckets. The index on deleted holds the number of every bucket that
// has, or as a stub had, tombstones. Those above zero are there. The sum of the absolute values is that of all tombstones ever. The tombstone
// keeps the id of a blanked entry.
type bucketRecord struct {
	Version    int32             `bson:"v"`
	Owner      message.UserID    `bson:"owner"`
	Sequence   int64             `bson:"sequence"`
	Slots      int32             `bson:"slots"`
	Decl       int32             `bson:"decl,omitempty"`
	Entries    []entryRecord     `bson:"entries"`
	Floor      *bson.Binary      `bson:"floor,omitempty"`
	Last       bson.Binary       `bson:"last"`
	Late       *bson.Binary      `bson:"late,omitempty"`
	Deleted    int64             `bson:"deleted,omitempty"`
	Tombstones []tombstoneRecord `bson:"tombstones,omitempty"`
	Stub       bool              `bson:"stub,omitempty"`
	Purged     *bson.Binary      `bson:"purged,omitempty"`
}

// entryRecord is the stored form of an entry. A tombstone has only its id, and a blanked one does not have an id either.
type entryRecord struct {
	ID          *bson.Binary   `bson:"id,omitempty"`
	From        message.UserID `bson:"from,omitempty"`
	Body        string         `bson:"body,omitempty"`
	ContentType string         `bson:"content_type,omitempty"`
	Attrs       []byte         `bson:"attrs,omitempty"`

	To       []message.UserID `bson:"to,omitempty"`
	ToCount  int32            `bson:"to_count,omitempty"`
	Audience message.Audience `bson:"audience,omitempty"`
	Topics   []message.Topic  `bson:"topics,omitempty"`

	Recovered bool `bson:"recovered,omitempty"`
	Deleted   bool `bson:"deleted,omitempty"`
	Expired   bool `bson:"expired,omitempty"`
}

// contentFields are the fields of an entry that it loses when it expires.
var contentFields = []string{fieldEntryFrom, "body", "content_type", fieldEntryAttrs, "to", "to_count", "audience", "topics", "recovered"}

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
	r := entryRecord{
		ID: &id, From: e.From, Body: e.Body, ContentType: e.ContentType, Attrs: e.Attrs, Recovered: e.Recovered,
		To: e.To, ToCount: int32(e.ToCount), Audience: e.Audience, Topics: e.Topics, //nolint:gosec // at most message.MaxRecipients
	}
	return bson.Marshal(r)
}

func (r *entryRecord) entry() (e bucket.Entry, err error) {
	if e.ID, err = optionalID(r.ID); err != nil {
		return bucket.Entry{}, err
	}
	e.From, e.Body, e.ContentType, e.Attrs, e.Recovered, e.Deleted = r.From, r.Body, r.ContentType, r.Attrs, r.Recovered, r.Deleted
	e.To, e.ToCount, e.Audience, e.Topics, e.Expired = r.To, int(r.ToCount), r.Audience, r.Topics, r.Expired
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

// maxSlots is far above the size of any bucket.
const maxSlots = 1 << 15

func (r *bucketRecord) outline() (o bucket.Outline, err error) {
	if r.Sequence < 0 || r.Sequence > math.MaxUint32 || r.slots() > maxSlots || r.Decl < 0 {
		return o, corrupt(inboxName, fmt.Errorf("bucket %d of %s has %d slots and the decl %d", r.Sequence, r.Owner, r.slots(), r.Decl))
	}
	o = bucket.Outline{Sequence: uint32(r.Sequence), Slots: r.slots(), Decl: int(r.Decl), Stub: r.Stub}
	if o.Floor, err = optionalID(r.Floor); err == nil {
		o.Last, err = idOf(inboxName, r.Last)
	}
	return o, err
}

// bucket returns the bucket, which was read with a field.
func (r *bucketRecord) bucket(field bucket.Field) (b bucket.Bucket, err error) {
	b.Owner = r.Owner
	if b.Outline, err = r.outline(); err != nil {
		return bucket.Bucket{}, err
	}
	if b.Purged, err = optionalID(r.Purged); err != nil || b.Stub || field == bucket.NoEntries {
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
