package mongostore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/message"
)

// Flags is the store of the flags of inboxes.
type Flags struct{ c collection }

var _ flag.Store = (*Flags)(nil)

// flagsRecord is the stored form of a flag.Record.
type flagsRecord struct {
	Owner   message.UserID `bson:"_id"`
	Version int32          `bson:"v"`
	// Revision is also in Flags. A replacement finds the record by it.
	Revision int64 `bson:"revision"`
	// Flags is the stored form of package flag.
	Flags []byte `bson:"flags"`
}

func (f flagsRecord) record() (flag.Record, error) {
	r, err := flag.Parse(f.Owner, f.Flags)
	if err == nil && r.Revision != f.Revision {
		r, err = flag.Record{Owner: f.Owner}, errors.New("a revision is not that of its flags")
	}
	if err != nil {
		err = corrupt(flagsName, err)
	}
	return r, err
}

// Lookup implements flag.Store.
func (s *Flags) Lookup(ctx context.Context, owners []message.UserID) ([]flag.Looked, error) {
	there, err := byID[flagsRecord](ctx, s.c, "look up flags", owners)
	if err != nil {
		return nil, err
	}
	looked := make([]flag.Looked, len(owners))
	for i, owner := range owners {
		looked[i].Record.Owner = owner
		found, ok := there[owner]
		if !ok {
			continue
		}
		r, err := found.record.record()
		if err = cmp.Or(found.err, err); err != nil {
			looked[i].Err = fmt.Errorf("mongostore: flags of %s: %w", owner, err)
		} else {
			looked[i].Record = r
		}
	}
	return looked, nil
}

// Replace implements flag.Store. It is a compare-and-swap. If the server refuses it, Replace reads the record: an earlier attempt may have
// written it, and its reply was lost.
func (s *Flags) Replace(ctx context.Context, r flag.Record) (stored bool, err error) {
	next := flagsRecord{Owner: r.Owner, Version: version, Revision: r.Revision, Flags: r.AppendTo(nil)}
	before := bson.D{
		{Key: fieldID, Value: r.Owner},
		ofThisVersion,
		{Key: fieldRevision, Value: r.Revision - 1},
		{Key: fieldFlags, Value: operator("$type", "binData")}, // a damaged record is not replaced
	}
	// No record has revision 0. So the upsert creates the first one, or fails on the id of an existing one.
	opts := options.Replace().SetUpsert(r.Revision == 1)
	err = s.c.call(ctx, "replace flags", func(ctx context.Context) error {
		result, err := s.c.ReplaceOne(ctx, before, next, opts)
		if stored = err == nil && result.MatchedCount+result.UpsertedCount > 0; stored {
			return nil
		}
		if err != nil && !duplicate(err) {
			return err
		}
		there, err := flag.Get(ctx, s, r.Owner)
		stored = err == nil && bytes.Equal(there.AppendTo(nil), next.Flags)
		return err
	})
	return stored, err
}
