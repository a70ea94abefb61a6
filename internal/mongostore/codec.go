package mongostore

import (
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fanmail/fanmail/pkg/message"
)

// version is the format version that every document carries. What is stored in another one is refused, not guessed at.
const version = 1

// checkVersion returns an error unless a document has the version of this release.
func checkVersion(collection string, found int32) error {
	if found != version {
		return fmt.Errorf("%w in %s: a document has version %d, this release reads version %d: run the release that wrote it, or a later one",
			ErrFormat, collection, found, version)
	}
	return nil
}

// corrupt says that a document cannot be read.
func corrupt(collection string, err error) error {
	return fmt.Errorf("%w in %s: %w", ErrCorrupt, collection, err)
}

// uuidSubtype is the subtype of binary data that holds a UUID.
const uuidSubtype = bson.TypeBinaryUUID

// uuid returns a message id as it is stored: the 16 bytes of a UUID, as binary data of subtype 4. Servers compare binary
// data by length, by subtype, and then byte by byte: so the order of what is stored is the order of ids. Text would have
// that order too, in more than twice the space, in every entry of every inbox and every index.
func uuid(id message.ID) bson.Binary {
	return bson.Binary{Subtype: uuidSubtype, Data: id[:]}
}

// idOf reads what uuid wrote.
func idOf(collection string, b bson.Binary) (message.ID, error) {
	if b.Subtype != uuidSubtype || len(b.Data) != len(message.ID{}) {
		return message.ID{}, corrupt(collection, fmt.Errorf("an id is binary data of subtype %d and %d bytes", b.Subtype, len(b.Data)))
	}
	return message.ID(b.Data), nil
}

// date returns a time as it is stored: cut to milliseconds. The zero time comes back as the zero time.
func date(t time.Time) bson.DateTime { return bson.DateTime(t.UnixMilli()) }

// timeOf reads what date wrote.
func timeOf(d bson.DateTime) time.Time { return time.UnixMilli(int64(d)).UTC() }
