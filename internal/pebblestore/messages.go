package pebblestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/fanmail/fanmail/internal/messagecache"
	"github.com/fanmail/fanmail/pkg/message"
)

// Messages is the canonical store of messages.
type Messages struct {
	db      *DB
	locks   stripes
	cache   *messagecache.Cache
	syncing syncing
}

var _ message.Store = (*Messages)(nil)

// messageRecord is a message in CBOR. The id is in the key. The judged time is between the version and the CBOR: the message's own time, or
// a time voidLag later if the message is void.
type messageRecord struct {
	Topics      []message.Topic  `cbor:"0,keyasint,omitempty"`
	From        message.UserID   `cbor:"1,keyasint"`
	To          []message.UserID `cbor:"2,keyasint,omitempty"`
	Audience    message.Audience `cbor:"3,keyasint,omitempty"`
	Body        string           `cbor:"4,keyasint,omitempty"`
	ContentType string           `cbor:"5,keyasint,omitempty"`
	Attrs       json.RawMessage  `cbor:"6,keyasint,omitempty"`
	Blocked     int              `cbor:"7,keyasint,omitempty"`
	// StoredAt is when the message was stored, as a time in storedAtLen bytes.
	StoredAt []byte `cbor:"8,keyasint,omitempty"`
}

const storedAtLen = 8

// voidLag is how much later than its own time the judged time of a void message is.
const voidLag = 2 * message.MaxSlack

// encodeMessage returns the value of a message, with space for its stamp.
func encodeMessage(m message.Message) []byte {
	head := make([]byte, 1+storedAtLen)
	head[0] = version
	return encode(head, messageRecord{
		Topics: m.Topics, From: m.From, To: m.To, Audience: m.Audience, Body: m.Body, ContentType: m.ContentType, Attrs: m.Attrs,
		Blocked: m.Blocked, StoredAt: make([]byte, storedAtLen),
	})
}

// setStamp fills in the stamp of a message. The encoding sorts fields by their keys, so StoredAt stands at the end.
func setStamp(value []byte, id message.ID, stamp message.Stamp) {
	appendTime(value[1:1], judgedTime(id, stamp))
	appendTime(value[len(value)-storedAtLen:len(value)-storedAtLen], stamp.StoredAt)
}

// judgedTime returns the time that says whether a message is void: see messageRecord.
func judgedTime(id message.ID, stamp message.Stamp) time.Time {
	if stamp.Void {
		return id.Time().Add(voidLag)
	}
	return id.Time()
}

func parseMessage(id message.ID, value []byte) (message.Stored, error) {
	b, err := payload(spaceMessages, value, storedAtLen)
	if err != nil {
		return message.Stored{}, err
	}
	var r messageRecord
	if err := decode(spaceMessages, b[storedAtLen:], &r); err != nil {
		return message.Stored{}, err
	}
	m := message.Message{
		ID: id, From: r.From, To: r.To, Audience: r.Audience, Topics: r.Topics, Body: r.Body, ContentType: r.ContentType, Attrs: r.Attrs,
		Blocked: r.Blocked,
	}
	if len(r.StoredAt) != storedAtLen {
		return message.Stored{}, corrupt(spaceMessages)
	}
	return message.Stored{Message: m, Stamp: message.Stamp{StoredAt: timeOf(r.StoredAt), Void: !timeOf(b).Equal(id.Time())}}, nil
}

// Insert implements message.Store. It stamps a message just before the message becomes visible, after everything that can take
// long, because the stamp decides whether the message is in time.
func (s *Messages) Insert(ctx context.Context, messages []message.Message, timing message.Timing) (_ []message.Stamp, err error) {
	call, err := s.db.begin(ctx, "messages.insert")
	if err != nil {
		return nil, err
	}
	defer call.end(ctx, &err)
	stamps := make([]message.Stamp, 0, len(messages))
	for len(messages) > 0 {
		values, n := encodeSome(messages)
		some, err := s.insert(messages[:n], values, timing)
		if err != nil {
			return nil, fmt.Errorf("insert %d messages: %w", n, err)
		}
		stamps = append(stamps, some...)
		messages = messages[n:]
	}
	return stamps, nil
}

// encodeSome encodes the messages of the next batch, and returns their number.
func encodeSome(messages []message.Message) (values [][]byte, n int) {
	for size := 0; n < len(messages) && size < batchBytes; n++ {
		value := encodeMessage(messages[n])
		values = append(values, value)
		size += len(value)
	}
	return values, n
}

// insert stores messages with the given values in one batch.
func (s *Messages) insert(messages []message.Message, values [][]byte, timing message.Timing) ([]message.Stamp, error) {
	locks := lockAll(s.locks, messages, func(m message.Message) uint64 { return idLock(m.ID) })
	defer locks.unlock()
	s.syncing.add(messages)
	defer s.syncing.remove(messages)
	batch := s.db.engine.NewBatch()
	stamps, err := s.fill(batch, messages, values, timing)
	if err != nil {
		return nil, err
	}
	return stamps, s.db.commit(batch, &locks)
}

func (s *Messages) fill(batch *pebble.Batch, messages []message.Message, values [][]byte, timing message.Timing) ([]message.Stamp, error) {
	stamps := make([]message.Stamp, len(messages))
	fresh := make([]int, 0, len(messages))
	for i, m := range messages {
		known, err := s.db.get(idKey(spaceMessages, m.ID), func(value []byte) error {
			stored, err := parseMessage(m.ID, value)
			stamps[i] = stored.Stamp
			return err
		})
		if err != nil {
			return nil, err
		}
		if !known {
			fresh = append(fresh, i)
		}
	}
	now := fromMillis(s.db.now().UnixMilli())
	for _, i := range fresh {
		m := messages[i]
		stamps[i] = message.Stamp{StoredAt: now, Void: timing.Void(m.Sent(), now)}
		setStamp(values[i], m.ID, stamps[i])
		if err := batch.Set(idKey(spaceMessages, m.ID), values[i], nil); err != nil {
			return nil, err
		}
		if err := index(batch, message.Stored{Message: m, Stamp: stamps[i]}); err != nil {
			return nil, err
		}
	}
	return stamps, nil
}

// index adds keys of a message to a batch: the one by which the resumer finds it, and those by which readers find it through its
// recipients.
func index(batch *pebble.Batch, m message.Stored) error {
	if !m.FromFuture() {
		if err := batch.Set(idKey(spacePending, m.ID), encodeValue(m.From), nil); err != nil {
			return err
		}
	}
	for _, source := range m.Sources() {
		if err := batch.Set(sourceKey(source, m.ID), encodeJudgedTime(judgedTime(m.ID, m.Stamp)), nil); err != nil {
			return err
		}
	}
	for _, user := range m.To {
		if err := batch.Set(namingKey(user, m.ID), nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// pair is a key and its value.
type pair struct{ key, value []byte }

func setAll(batch *pebble.Batch, pairs ...pair) error {
	for _, p := range pairs {
		if err := batch.Set(p.key, p.value, nil); err != nil {
			return err
		}
	}
	return nil
}

// Get implements message.Store.
func (s *Messages) Get(ctx context.Context, ref message.Ref) (message.Stored, error) {
	return calling(ctx, s.db, "messages.get", func() (message.Stored, error) { return s.getRef(ref) })
}

// GetMany implements message.Store.
func (s *Messages) GetMany(ctx context.Context, refs []message.Ref) ([]message.Found, error) {
	return each(ctx, s.db, "messages.get_many", refs, func(ref message.Ref) (message.Found, error) {
		stored, err := s.getRef(ref)
		if err != nil && !errors.Is(err, message.ErrNotFound) && !errors.Is(err, message.ErrCorrupt) {
			return message.Found{}, err
		}
		return message.Found{Stored: stored, Err: err}, nil
	})
}

// getRef returns a message if its author is that of ref, or if ref has no author.
func (s *Messages) getRef(ref message.Ref) (message.Stored, error) {
	stored, err := s.get(ref.ID)
	switch {
	case err != nil:
		return message.Stored{}, err
	case ref.From != "" && ref.From != stored.From:
		return message.Stored{}, fmt.Errorf("message %s by %s: %w", ref.ID, ref.From, message.ErrNotFound)
	}
	return stored, nil
}

// get returns a message after it is synced. Otherwise a crash could remove a message that a user has already read.
func (s *Messages) get(id message.ID) (message.Stored, error) {
	stored, found := s.cache.Get(id)
	if found {
		return stored, nil
	}
	found, err := s.db.get(idKey(spaceMessages, id), func(value []byte) (err error) {
		stored, err = parseMessage(id, value)
		return err
	})
	switch {
	case err == nil && !found:
		err = message.ErrNotFound
	case err == nil && s.syncing.has(id):
		s.db.sync()
	}
	if err != nil {
		return message.Stored{}, fmt.Errorf("message %s: %w", id, err)
	}
	s.cache.Add(stored)
	return stored, nil
}

// newestLooks is the maximum number of messages that NewestStamp and Newest read.
const newestLooks = 1000

// NewestStamp returns the latest time of storing among the messages with the greatest ids, or the zero time if there is no message. It
// stops at the first message that is not from the future, because older messages were stored earlier, except late ones.
func (s *Messages) NewestStamp(ctx context.Context) (newest time.Time, err error) {
	call, err := s.db.begin(ctx, "messages.newest_stamp")
	if err != nil {
		return time.Time{}, err
	}
	defer call.end(ctx, &err)
	it, err := s.db.iterate([]byte{byte(spaceMessages)})
	if err != nil {
		return time.Time{}, err
	}
	defer closeIter(it, &err)
	looks := 0
	for found := it.Last(); found && looks < newestLooks; found = it.Prev() {
		looks++
		value, err := it.ValueAndErr()
		if err != nil {
			return time.Time{}, fmt.Errorf("read from the store: %w", err)
		}
		m, err := parseMessage(idOf(it.Key()), value)
		if err != nil {
			continue // every reader of this message gets the error
		}
		if m.StoredAt.After(newest) {
			newest = m.StoredAt
		}
		if !m.FromFuture() {
			break
		}
	}
	return newest, it.Error()
}

// AnyAfter implements message.Store.
func (s *Messages) AnyAfter(ctx context.Context, after message.ID) (_ bool, err error) {
	call, err := s.db.begin(ctx, "messages.any_after")
	if err != nil {
		return false, err
	}
	defer call.end(ctx, &err)
	prefix := []byte{byte(spaceMessages)}
	looks := 0
	for key, value := range s.db.records(prefix, above(prefix, after[:]), message.AnyAfterLooks, &err) {
		m, err := parseMessage(idOf(key), value)
		if looks++; err != nil || !m.Void || looks == message.AnyAfterLooks {
			return true, nil // what a damaged message was is unknown
		}
	}
	return false, err
}

// Unfinished implements message.Store.
func (s *Messages) Unfinished(ctx context.Context, after, before message.ID, limit int) (refs []message.Ref, err error) {
	call, err := s.db.begin(ctx, "messages.unfinished")
	if err != nil {
		return nil, err
	}
	defer call.end(ctx, &err)
	prefix := []byte{byte(spacePending)}
	for key, value := range s.db.records(prefix, above(prefix, after[:]), limit, &err) {
		ref := message.Ref{ID: idOf(key)}
		if !ref.ID.Less(before) {
			break
		}
		if err := decodeValue(spacePending, value, &ref.From); err != nil {
			return nil, err
		}
		refs = append(refs, ref)
	}
	return refs, err
}
