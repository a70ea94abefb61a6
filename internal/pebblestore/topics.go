package pebblestore

import (
	"bytes"
	"context"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
)

// Topics is the store of topics.
type Topics struct {
	db    *DB
	locks stripes
}

var _ topic.Store = (*Topics)(nil)

type topicRecord struct {
	Number  topic.Number `cbor:"1,keyasint"`
	Parent  topic.Number `cbor:"2,keyasint,omitempty"`
	InForce bool         `cbor:"3,keyasint,omitempty"`
	Mark    topic.Number `cbor:"4,keyasint,omitempty"`
}

func encodeTopic(r topic.Record) []byte {
	return encodeValue(topicRecord{Number: r.Number, Parent: r.Parent, InForce: r.InForce, Mark: r.Mark})
}

func parseTopic(t message.Topic, value []byte) (topic.Record, error) {
	var found topicRecord
	if err := decodeValue(spaceTopics, value, &found); err != nil {
		return topic.Record{}, err
	}
	if found.Number == 0 {
		return topic.Record{}, corrupt(spaceTopics)
	}
	return topic.Record{Topic: t, Number: found.Number, Parent: found.Parent, InForce: found.InForce, Mark: found.Mark}, nil
}

// read returns the record of a topic.
func (s *Topics) read(t message.Topic) (topic.Record, error) {
	r := topic.Record{Topic: t}
	_, err := s.db.get(topicKey(t), func(value []byte) (err error) {
		r, err = parseTopic(t, value)
		return err
	})
	if err != nil {
		return topic.Record{}, fmt.Errorf("%s: %w", t.Source(), err)
	}
	return r, nil
}

// Get implements topic.Store.
func (s *Topics) Get(ctx context.Context, topics []message.Topic) ([]topic.Record, error) {
	return each(ctx, s.db, "topics.get", topics, s.read)
}

// Step implements topic.Store.
func (s *Topics) Step(ctx context.Context, steps []topic.Change) (_ []topic.Record, err error) {
	c, err := beginChange(ctx, s.db, "topics.step", s.locks, steps, func(step topic.Change) uint64 { return xxhash.Sum64String(string(step.From.Topic)) })
	if err != nil {
		return nil, err
	}
	defer c.end(ctx, &err)
	records := make([]topic.Record, len(steps))
	for i, step := range steps {
		there, err := s.read(step.From.Topic)
		switch {
		case err != nil:
			return nil, err
		case there != step.From:
			records[i] = there
			continue
		case step.To.Number == 0:
			err = c.batch.Delete(topicKey(step.To.Topic), nil)
		default:
			err = c.batch.Set(topicKey(step.To.Topic), encodeTopic(step.To), nil)
		}
		if err != nil {
			return nil, fmt.Errorf("write to the store: %w", err)
		}
		records[i] = step.To
	}
	return records, s.db.commit(c.batch, &c.locks)
}

// List implements topic.Store. All topics below a topic are one range of keys; the topic itself is in front of it.
func (s *Topics) List(ctx context.Context, under, after message.Topic, limit int) (records []topic.Record, err error) {
	call, err := s.db.begin(ctx, "topics.list")
	if err != nil {
		return nil, err
	}
	defer call.end(ctx, &err)
	it, err := s.db.iterate(topicKey(under))
	if err != nil {
		return nil, err
	}
	defer closeIter(it, &err)
	found := it.First()
	if after >= under && after != "" {
		found = it.SeekGE(above(topicKey(after), nil))
	}
	for ; found && len(records) < limit; found = it.Next() {
		t := message.Topic(bytes.Clone(it.Key()[1:]))
		if below := topicKey(under + "/"); under != "" && bytes.Compare(it.Key(), below) < 0 && t != under {
			if found = it.SeekGE(below); !found { // a longer segment begins with the last one of under
				break
			}
			t = message.Topic(bytes.Clone(it.Key()[1:]))
		}
		if under != "" && !t.In(under) {
			break
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, fmt.Errorf("read from the store: %w", err)
		}
		r, err := parseTopic(t, value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Source(), err)
		}
		records = append(records, r)
	}
	return records, it.Error()
}
