package mongostore

import (
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fanmail/fanmail/pkg/message"
)

// version is the format version that every document carries. A document with another version is refused.
const version = 1

// ofThisVersion is a condition that makes updates skip documents of other versions.
var ofThisVersion = bson.E{Key: fieldVersion, Value: version}

// checkVersion returns an error unless a document has a version that this release reads.
func checkVersion(collection string, found int32) error {
	if found != version {
		return otherVersion(collection, fmt.Sprintf("has format %d, this version reads format %d", found, version))
	}
	return nil
}

// otherVersion returns an ErrFormat that says how a document differs, and what to do.
func otherVersion(collection, differs string) error {
	return fmt.Errorf("%w: a document in %s %s: run the version that wrote it, or choose another database", ErrFormat, collection, differs)
}

// corrupt says that a document cannot be read.
func corrupt(collection string, err error) error {
	return fmt.Errorf("%w in %s: %w", ErrCorrupt, collection, err)
}

// uuidSubtype is the subtype of binary data that holds a UUID.
const uuidSubtype = bson.TypeBinaryUUID

// uuid returns the stored form of a message id: the 16 bytes of a UUID, as binary data of subtype 4. Servers compare binary
// data by length, then by subtype, then byte by byte. So stored ids sort in the order of ids. Text would sort the same way, but
// it would take more than twice the space in every entry of every inbox and every index.
func uuid(id message.ID) bson.Binary {
	return bson.Binary{Subtype: uuidSubtype, Data: id[:]}
}

// idOf decodes an id that uuid encoded.
func idOf(collection string, b bson.Binary) (message.ID, error) {
	if b.Subtype != uuidSubtype || len(b.Data) != len(message.ID{}) {
		return message.ID{}, corrupt(collection, fmt.Errorf("an id is binary data of subtype %d and %d bytes", b.Subtype, len(b.Data)))
	}
	return message.ID(b.Data), nil
}

// date returns the stored form of a time, cut to milliseconds. timeOf returns the zero time for the stored zero time.
func date(t time.Time) bson.DateTime { return bson.DateTime(t.UnixMilli()) }

// timeOf decodes a time that date encoded.
func timeOf(d bson.DateTime) time.Time { return time.UnixMilli(int64(d)).UTC() }
