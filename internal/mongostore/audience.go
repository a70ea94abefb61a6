package mongostore

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// authorsPerQuery is how many authors one query names. DocumentDB compares every message that it finds with all of them.
	authorsPerQuery = 250
	// stretchesPerQuery is how many different id ranges one query has. Each range may belong to many authors.
	stretchesPerQuery = 100
)

// ToFollowers implements message.Store. Messages of topics are searched on every shard.
func (s *Messages) ToFollowers(ctx context.Context, ranges []message.Range, order message.Order, limit int) ([]message.Stored, error) {
	found := bySource(ranges)
	q := search{parts: found.parts(), bounds: found.all, order: order, limit: limit, first: recently}
	return s.searchAll(ctx, "", q)
}

// sourceRanges are the ranges that are not empty.
type sourceRanges struct {
	authors map[message.UserID][]message.Range
	topics  map[message.Topic][]message.Range
	// all is the window that holds all of them.
	all window
}

func bySource(ranges []message.Range) sourceRanges {
	s := sourceRanges{
		authors: make(map[message.UserID][]message.Range), topics: make(map[message.Topic][]message.Range),
		all: window{from: message.MaxID},
	}
	for _, in := range ranges {
		if !in.After.Next().Less(in.Before) {
			continue
		}
		if topic, ok := in.From.Topic(); ok {
			s.topics[topic] = append(s.topics[topic], in)
		} else {
			s.authors[in.From.Author()] = append(s.authors[in.From.Author()], in)
		}
		s.all = s.all.with(in)
	}
	return s
}

// parts returns queries that find the messages in the ranges.
func (s sourceRanges) parts() (parts []searchPart) {
	for some := range slices.Chunk(slices.Sorted(maps.Keys(s.authors)), authorsPerQuery) {
		parts = append(parts, searchPart{
			filter: bson.D{{Key: fieldFrom, Value: in(some)}, {Key: fieldAudience, Value: message.AudienceFollowers}}, index: byFrom.name(),
			keep: func(id message.ID, r *refRecord) bool { return anyHolds(s.authors[r.From], id) },
		})
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(s.topics)), authorsPerQuery) {
		parts = append(parts, searchPart{
			filter: bson.D{{Key: fieldWithin, Value: in(some)}}, index: byTopic.name(), fields: []string{fieldWithin},
			keep: func(id message.ID, r *refRecord) bool {
				return slices.ContainsFunc(r.Within, func(t message.Topic) bool { return anyHolds(s.topics[t], id) })
			},
		})
	}
	return parts
}

func anyHolds(ranges []message.Range, id message.ID) bool {
	return slices.ContainsFunc(ranges, func(in message.Range) bool { return in.After.Less(id) && id.Less(in.Before) })
}

// Naming implements message.Store. The query asks every shard. Its first window is the whole range, because few messages name a
// user.
func (s *Messages) Naming(ctx context.Context, user message.UserID, after, before message.ID, order message.Order, limit int) ([]message.Stored, error) {
	return s.searchAll(ctx, user, search{
		parts:  []searchPart{{filter: bson.D{{Key: fieldTo, Value: user}}, index: byTo.name()}},
		bounds: window{after.Next(), before}, order: order, limit: limit,
	})
}

// Unfinished implements message.Store. It asks every shard.
func (s *Messages) Unfinished(ctx context.Context, after, before message.ID, limit int) ([]message.Ref, error) {
	// Plain: to resume a message that has finished changes nothing, and one that is missing is resumed later.
	plain := &Messages{c: s.c.older()}
	return plain.search(ctx, search{
		parts:  []searchPart{{filter: bson.D{{Key: fieldUnfinished, Value: true}}, index: byUnfinished.name()}},
		bounds: window{after.Next(), before}, order: message.OldestFirst, limit: limit,
	})
}

// searchAll returns the messages that a search finds, short for a user. It searches again if one was removed before it was read, because a caller takes fewer
// messages than the limit for all of them. One that is found again and is not there was lost.
func (s *Messages) searchAll(ctx context.Context, user message.UserID, q search) ([]message.Stored, error) {
	for lost := (message.ID{}); ; {
		refs, err := s.search(ctx, q)
		if err != nil {
			return nil, err
		}
		messages, missing, err := s.getAll(ctx, user, refs)
		switch {
		case err != nil:
			return nil, err
		case missing.IsZero():
			return messages, nil
		case missing == lost:
			return nil, fmt.Errorf("mongostore: message %s was found, and is not there: %w", lost, ErrCorrupt)
		}
		lost = missing
	}
}

// getAll returns messages by their refs, and the first of those that are not there.
func (s *Messages) getAll(ctx context.Context, user message.UserID, refs []message.Ref) (messages []message.Stored, missing message.ID, err error) {
	messages = make([]message.Stored, len(refs))
	place := make(map[message.ID]int, len(refs))
	for i, ref := range refs {
		place[ref.ID] = i
	}
	err = s.byRef(refs, func(filter bson.D) error {
		return s.c.scan(ctx, "get messages", filter, options.Find(), func() {}, func(raw bson.Raw) error {
			var r messageRecord
			if err := decode(s.c.Name(), raw, &r); err != nil {
				return err
			}
			stored, err := r.stored()
			if err == nil {
				messages[place[stored.ID]] = stored.Short(user)
			}
			return err
		})
	})
	for i, m := range messages {
		if m.ID.IsZero() && missing.IsZero() {
			missing = refs[i].ID
		}
	}
	return messages, missing, err
}

// CountToFollowers implements message.Store. The server counts, because a server may read all messages of a topic to find those in a
// window, and pages would be windows. The index holds every field that counting the messages of authors needs. So a server that can answer
// from the index alone reads no message, unless there are topics, too.
func (s *Messages) CountToFollowers(ctx context.Context, ranges []message.Range) (int64, error) {
	count := int64(0)
	var counted []bson.D // what each further query leaves out, because a message has several topics
	for _, stretches := range stretchesOf(ranges, topicIn) {
		n, err := s.count(ctx, anyBut(stretches, counted), byTopic)
		if err != nil {
			return 0, err
		}
		count, counted = count+n, append(counted, stretches...)
	}
	for _, stretches := range stretchesOf(ranges, authorIn) {
		filter := append(anyBut(stretches, counted), bson.E{Key: fieldAudience, Value: message.AudienceFollowers})
		n, err := s.count(ctx, filter, byFrom)
		if err != nil {
			return 0, err
		}
		count += n
	}
	return count, nil
}

// count counts the messages that match a filter and are not void.
func (s *Messages) count(ctx context.Context, filter bson.D, by index) (count int64, err error) {
	filter = append(filter, bson.E{Key: fieldLag, Value: 0})
	err = s.c.call(ctx, "count messages", func(ctx context.Context) error {
		count, err = s.c.CountDocuments(ctx, filter, options.Count().SetHint(by.name()))
		return err
	})
	return count, err
}

// anyBut returns a filter for what one of filters matches, and none of others. It names the others once, so that a query grows with the sum of both.
func anyBut(filters, others []bson.D) bson.D {
	filter := bson.D{{Key: "$or", Value: filters}}
	if len(others) > 0 {
		filter = append(filter, bson.E{Key: "$nor", Value: others})
	}
	return filter
}

// authorIn returns the field and the value by which messages of an author are found, or false if the source of a range is a topic.
func authorIn(in message.Range) (field, value string, ok bool) {
	return fieldFrom, string(in.From), !in.From.IsTopic()
}

// topicIn is authorIn for a topic.
func topicIn(in message.Range) (field, value string, ok bool) {
	topic, ok := in.From.Topic()
	return fieldWithin, string(topic), ok
}

// stretchesOf returns filters that find every message in the ranges of some sources, of one source exactly once. Each group of filters is one
// query. Ranges of many sources often have the same ends, so one filter covers many sources.
func stretchesOf(ranges []message.Range, by func(message.Range) (field, value string, ok bool)) (groups [][]bson.D) {
	type stretch struct{ after, before message.ID }
	sources := make(map[stretch][]string)
	name := ""
	for _, r := range ranges {
		if field, value, ok := by(r); ok && r.After.Next().Less(r.Before) {
			name = field
			at := stretch{r.After, r.Before}
			sources[at] = append(sources[at], value)
		}
	}
	var filters []bson.D
	size := 0
	for at, all := range sources {
		slices.Sort(all)
		for some := range slices.Chunk(all, authorsPerQuery) {
			if size += len(some); size > authorsPerQuery || len(filters) == stretchesPerQuery {
				groups, filters, size = append(groups, filters), nil, len(some)
			}
			filters = append(filters, bson.D{
				{Key: name, Value: in(some)},
				{Key: fieldID, Value: bson.D{{Key: "$gt", Value: uuid(at.after)}, {Key: "$lt", Value: uuid(at.before)}}},
			})
		}
	}
	if len(filters) > 0 {
		groups = append(groups, filters)
	}
	return groups
}
