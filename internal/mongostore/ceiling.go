package mongostore

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fanmail/fanmail/pkg/message"
)

// ceilingID is the id of the record that no stored message has an id above another one.
const ceilingID = "ceiling"

// ceilingAhead is how far above a message its insert raises the ceiling, so a process raises it about once an hour.
const ceilingAhead = time.Hour

// ceiling is an id above which no message has one. It only rises, and does so before such a message is stored. So one read of one
// shard answers what would otherwise be a question to all shards. If a clock has jumped ahead, the ceiling is far above
// the messages: that costs the question to all shards until that time, and no more.
type ceiling struct {
	c             collection
	raises, reads shared

	mu     sync.Mutex
	known  message.ID // what this process has durably raised: the stored one is not below it
	wanted message.ID // the greatest id that an insert has asked for
}

type ceilingRecord struct {
	ID      string      `bson:"_id"`
	Version int32       `bson:"v"`
	UpTo    bson.Binary `bson:"up_to"`
}

func newCeiling(c collection) *ceiling {
	t := &ceiling{c: c}
	t.raises.work, t.reads.work = t.raise, t.read
	return t
}

// cover returns when the stored ceiling is not below the ids of messages. If it will be soon, cover has it raised, and does not wait: so nobody
// notices if the shard of the record is away for a while.
func (t *ceiling) cover(ctx context.Context, messages []message.Message) error {
	t.mu.Lock()
	covered := true
	for _, m := range messages {
		covered = covered && !t.known.Less(m.ID)
		t.wanted = message.Later(t.wanted, m.ID)
	}
	soon := t.known.Less(message.MinID(t.wanted.Time().Add(ceilingAhead / 2)))
	t.mu.Unlock()
	switch {
	case !covered:
		_, err := t.raises.do(ctx)
		return err
	case soon:
		t.raises.begin() //nolint:contextcheck // the run is that of no caller
	}
	return nil
}

// raise raises the stored ceiling above what was wanted when it began, unless an earlier raise has done so. The ceiling is not upserted: see
// notThere.
func (t *ceiling) raise(ctx context.Context) (message.ID, error) {
	t.mu.Lock()
	known, wanted := t.known, t.wanted
	t.mu.Unlock()
	if !known.Less(message.MinID(wanted.Time().Add(ceilingAhead / 2))) {
		return known, nil
	}
	to := message.Later(wanted, message.LastBefore(wanted.Time().Add(ceilingAhead)))
	filter, update := bson.D{{Key: fieldID, Value: ceilingID}}, operator("$max", bson.D{{Key: fieldUpTo, Value: uuid(to)}})
	err := t.c.call(ctx, "raise the ceiling", func(ctx context.Context) error {
		result, err := t.c.UpdateOne(ctx, filter, update)
		if err != nil || result.MatchedCount > 0 {
			return err
		}
		_, err = t.c.InsertOne(ctx, ceilingRecord{ID: ceilingID, Version: version, UpTo: uuid(to)})
		if duplicate(err) { // another process inserted it at the same moment
			_, err = t.c.UpdateOne(ctx, filter, update)
		}
		return err
	})
	if err != nil {
		return message.ID{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known = to
	return to, nil
}

// read returns the stored ceiling. It is zero if no message was ever stored.
func (t *ceiling) read(ctx context.Context) (id message.ID, err error) {
	err = t.c.call(ctx, "read the ceiling", func(ctx context.Context) error {
		found, err := one[ceilingRecord](t.c, t.c.FindOne(ctx, bson.D{{Key: fieldID, Value: ceilingID}}))
		if err == nil {
			id, err = idOf(metaName, found.UpTo)
		}
		return err
	})
	if errors.Is(err, mongo.ErrNoDocuments) {
		return message.ID{}, nil
	}
	return id, err
}
