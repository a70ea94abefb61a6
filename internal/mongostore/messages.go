package mongostore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/message"
)

// Messages is the canonical store of messages.
type Messages struct {
	c       collection
	ceiling *ceiling
}

var _ message.Store = (*Messages)(nil)

// messageRecord is the stored form of a message. The id contains the time of sending. The lag says whether the message is void, so
// an index can answer that. The store decides it when it stores the message.
type messageRecord struct {
	ID       bson.Binary      `bson:"_id,omitempty"`
	Version  int32            `bson:"v"`
	From     message.UserID   `bson:"from"`
	To       []message.UserID `bson:"to,omitempty"`
	Blocked  int              `bson:"blocked,omitempty"`
	Audience message.Audience `bson:"audience,omitempty"`
	// Topics are those that the message is sent to. Within has them and all their ancestors, and finds the message.
	Topics      []message.Topic `bson:"topics,omitempty"`
	Within      []message.Topic `bson:"within,omitempty"`
	Body        string          `bson:"body,omitempty"`
	ContentType string          `bson:"content_type,omitempty"`
	// Attrs is JSON text, kept byte for byte. A document would not keep its spelling.
	Attrs string `bson:"attrs,omitempty"`
	// Lag is 0 for a valid message and voidLag for a void one, in milliseconds.
	Lag *int64 `bson:"lag,omitempty"`
	// StoredAt is when the message was stored, by the server's clock.
	StoredAt *bson.DateTime `bson:"stored_at,omitempty"`
}

// recordOfMessage returns the record of a message without its id and its stamp. The filter of the upsert supplies the id.
func recordOfMessage(m message.Message) messageRecord {
	r := messageRecord{
		Version: version, From: m.From, To: m.To, Blocked: m.Blocked, Audience: m.Audience, Topics: m.Topics,
		Body: m.Body, ContentType: m.ContentType, Attrs: string(m.Attrs),
	}
	for _, source := range m.Sources() {
		if t, ok := source.Topic(); ok {
			r.Within = append(r.Within, t)
		}
	}
	return r
}

func (r messageRecord) stored() (message.Stored, error) {
	id, err := idOf(messagesName, r.ID)
	if err != nil {
		return message.Stored{}, err
	}
	if r.Lag == nil || r.StoredAt == nil {
		return message.Stored{}, corrupt(messagesName, fmt.Errorf("message %s lacks %s or %s", id, fieldLag, fieldStoredAt))
	}
	m := message.Message{
		ID: id, From: r.From, To: r.To, Blocked: r.Blocked, Audience: r.Audience, Topics: r.Topics, Body: r.Body, ContentType: r.ContentType,
	}
	if r.Attrs != "" {
		m.Attrs = json.RawMessage(r.Attrs)
	}
	return message.Stored{Message: m, Stamp: stampOf(*r.Lag, *r.StoredAt)}, nil
}

// voidLag is the lag of a void message.
const voidLag = 2 * message.MaxSlack

// stampOf returns the stamp in a record.
func stampOf(lag int64, storedAt bson.DateTime) message.Stamp {
	return message.Stamp{StoredAt: timeOf(storedAt), Void: lag != 0}
}

// stampRecord is the part of a message that Insert reads back.
type stampRecord struct {
	ID       bson.Binary   `bson:"_id"`
	Lag      int64         `bson:"lag"`
	StoredAt bson.DateTime `bson:"stored_at"`
}

// insertion returns the write that stores a message, stamped and judged by the server's clock. It leaves a stored message unchanged.
//
// The server reads its clock when the write begins, so a message becomes visible a little later than its stamp. The stamp is
// compared with the publish slack. Readers that look for messages that became visible late add the clock tolerance to the
// slack. The difference is at most the deadline of the write, which is well below that tolerance.
func (s *Messages) insertion(m message.Message, timing message.Timing) write {
	var now any = "$$NOW"
	if stamp := s.c.db.opts.Stamp; stamp != nil {
		now = date(stamp())
	}
	ahead := operator("$subtract", bson.A{date(m.Sent()), now}) // milliseconds, negative for a message in time
	late := operator("$lt", bson.A{ahead, -timing.Slack.Milliseconds()})
	future := operator("$gt", bson.A{ahead, timing.Tolerance.Milliseconds()})
	fresh := operator("$mergeObjects", bson.A{
		operator("$literal", recordOfMessage(m)),
		bson.D{{Key: fieldStoredAt, Value: now}},
		operator("$cond", bson.A{future, judged(voidLag, false), operator("$cond", bson.A{late, judged(voidLag, true), judged(0, true)})}),
	})
	return write{key: string(m.ID[:]), filter: refFilter(m.Ref()), upsert: true, update: unlessThere(fresh)}
}

// judged returns the fields that depend on the verdict, as an expression.
func judged(lag time.Duration, unfinished bool) bson.D {
	fields := bson.D{{Key: fieldLag, Value: lag.Milliseconds()}}
	if unfinished {
		fields = append(fields, bson.E{Key: fieldUnfinished, Value: true})
	}
	return operator("$literal", fields)
}

// refFilter finds a message by its shard key.
func refFilter(ref message.Ref) bson.D {
	return bson.D{{Key: fieldFrom, Value: ref.From}, {Key: fieldID, Value: uuid(ref.ID)}}
}

// Insert implements message.Store. One message takes one round trip, and a further one about once an hour, which raises the ceiling. Most
// calls have one message.
func (s *Messages) Insert(ctx context.Context, messages []message.Message, timing message.Timing) ([]message.Stamp, error) {
	if err := s.ceiling.cover(ctx, messages); err != nil {
		return nil, err
	}
	if len(messages) == 1 {
		stamp, err := s.insertOne(ctx, messages[0], timing)
		if err != nil {
			return nil, err
		}
		return []message.Stamp{stamp}, nil
	}
	writes := make([]write, len(messages))
	refs := make([]message.Ref, len(messages))
	for i, m := range messages {
		writes[i], refs[i] = s.insertion(m, timing), m.Ref()
	}
	if _, err := s.c.bulk(ctx, "insert messages", writes); err != nil {
		return nil, err
	}
	return s.stamps(ctx, refs)
}

func (s *Messages) insertOne(ctx context.Context, m message.Message, timing message.Timing) (stamp message.Stamp, err error) {
	insertion := s.insertion(m, timing)
	opts := options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After).SetProjection(fields(fieldLag, fieldStoredAt))
	err = s.c.call(ctx, "insert a message", func(ctx context.Context) error {
		r, err := one[stampRecord](s.c, s.c.FindOneAndUpdate(ctx, insertion.filter, insertion.update, opts))
		stamp = stampOf(r.Lag, r.StoredAt)
		return err
	})
	if duplicate(err) { // another call stored it at the same moment
		stamps, err := s.stamps(ctx, []message.Ref{m.Ref()})
		if err != nil {
			return message.Stamp{}, err
		}
		return stamps[0], nil
	}
	return stamp, err
}

// stamps returns the stamps of messages.
func (s *Messages) stamps(ctx context.Context, refs []message.Ref) ([]message.Stamp, error) {
	stamps := make([]message.Stamp, len(refs))
	known := make(map[message.ID]message.Stamp, len(refs))
	err := s.byRef(refs, func(filter bson.D) error {
		projection := options.Find().SetProjection(ascending(fieldID, fieldLag, fieldStoredAt))
		found, err := allOf[stampRecord](ctx, s.c, "read stamps", filter, projection)
		for _, r := range found {
			id, err := idOf(messagesName, r.ID)
			if err != nil {
				return err
			}
			known[id] = stampOf(r.Lag, r.StoredAt)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, ref := range refs {
		stamp, ok := known[ref.ID]
		if !ok {
			return nil, fmt.Errorf("mongostore: message %s by %s was stored, and is not there: %w", ref.ID, ref.From, ErrCorrupt)
		}
		stamps[i] = stamp
	}
	return stamps, nil
}

// refsPerQuery is how many messages one query names.
const refsPerQuery = 1000

// byRef calls find with filters that find messages by their shard key: the author, which selects the shard, and the id.
func (s *Messages) byRef(refs []message.Ref, find func(filter bson.D) error) error {
	for some := range slices.Chunk(refs, refsPerQuery) {
		ids, authors := make([]bson.Binary, len(some)), make([]message.UserID, len(some))
		for i, ref := range some {
			ids[i], authors[i] = uuid(ref.ID), ref.From
		}
		slices.Sort(authors)
		if err := find(bson.D{{Key: fieldFrom, Value: in(slices.Compact(authors))}, {Key: fieldID, Value: in(ids)}}); err != nil {
			return err
		}
	}
	return nil
}

// Get implements message.Store. The read is plain at first, because messages never change.
func (s *Messages) Get(ctx context.Context, ref message.Ref) (stored message.Stored, err error) {
	filter := refFilter(ref)
	if ref.From == "" {
		filter = bson.D{{Key: fieldID, Value: uuid(ref.ID)}}
	}
	err = s.c.call(ctx, "get a message", func(ctx context.Context) error {
		var r messageRecord
		err := mongo.ErrNoDocuments
		for _, c := range s.c.olderFirst() {
			if errors.Is(err, mongo.ErrNoDocuments) {
				r, err = one[messageRecord](c, c.FindOne(ctx, filter))
			}
		}
		if err != nil {
			return err
		}
		stored, err = r.stored()
		return err
	})
	if errors.Is(err, mongo.ErrNoDocuments) {
		return message.Stored{}, fmt.Errorf("message %s: %w", ref.ID, message.ErrNotFound)
	}
	return stored, err
}

// GetMany implements message.Store. One query finds up to refsPerQuery messages. The read is plain at first, because messages never change.
func (s *Messages) GetMany(ctx context.Context, refs []message.Ref) ([]message.Found, error) {
	found := make([]message.Found, len(refs))
	places := make(map[message.Ref][]int, len(refs))
	for i, ref := range refs {
		found[i].Err = fmt.Errorf("message %s by %s: %w", ref.ID, ref.From, message.ErrNotFound)
		places[ref] = append(places[ref], i)
	}
	for _, c := range s.c.olderFirst() {
		err := s.byRef(refs, func(filter bson.D) error {
			return c.scan(ctx, "get messages", filter, options.Find(), func() {}, func(raw bson.Raw) error {
				ref, f, err := foundIn(raw)
				for _, i := range places[ref] {
					found[i] = f
				}
				return err
			})
		})
		if err != nil {
			return nil, err
		}
		var missing []message.Ref
		for _, ref := range refs {
			if errors.Is(found[places[ref][0]].Err, message.ErrNotFound) {
				missing = append(missing, ref)
			}
		}
		refs = missing
	}
	return found, nil
}

// foundIn returns the message in a document, or that it is damaged.
func foundIn(raw bson.Raw) (ref message.Ref, f message.Found, err error) {
	if ref, err = refOf(raw); err != nil {
		return ref, f, err
	}
	var r messageRecord
	if f.Err = decode(messagesName, raw, &r); f.Err == nil {
		f.Stored, f.Err = r.stored()
	}
	switch {
	case errors.Is(f.Err, ErrCorrupt):
		f.Err = fmt.Errorf("mongostore: message %s: %w", ref.ID, f.Err)
	case f.Err != nil:
		return ref, f, f.Err
	}
	return ref, f, nil
}

// refOf returns the shard key of a message's document. It is readable even if the rest of the document is not.
func refOf(raw bson.Raw) (message.Ref, error) {
	id, err := rawID(messagesName, raw)
	from, _ := raw.Lookup(fieldFrom).StringValueOK()
	return message.Ref{From: message.UserID(from), ID: id}, err
}

// rawID returns the message id that is the id of a document.
func rawID(collection string, raw bson.Raw) (message.ID, error) {
	subtype, data, _ := raw.Lookup(fieldID).BinaryOK()
	return idOf(collection, bson.Binary{Subtype: subtype, Data: data})
}

// AnyAfter implements message.Store. The ceiling answers it if that is not above after, otherwise the index of the ids on every shard. The
// ceiling is read after the call has begun: the caller has just raised a horizon, and a message may have been stored before that.
func (s *Messages) AnyAfter(ctx context.Context, after message.ID) (bool, error) {
	top, err := s.ceiling.reads.do(ctx)
	if err != nil || !after.Less(top) {
		return false, err
	}
	opts := options.Find().SetSort(ascending(fieldID)).SetLimit(message.AnyAfterLooks).SetProjection(fields(fieldID, fieldLag, fieldStoredAt))
	found, err := all[stampRecord](ctx, s.c, "look for later messages", bson.D{{Key: fieldID, Value: operator("$gt", uuid(after))}}, opts)
	if err != nil {
		return false, err
	}
	for _, r := range found {
		if !stampOf(r.Lag, r.StoredAt).Void {
			return true, nil
		}
	}
	return len(found) == message.AnyAfterLooks, nil
}
