package mongostore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

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

// ToFollowers implements message.Store.
func (s *Messages) ToFollowers(ctx context.Context, ranges []message.Range, order message.Order, limit int) ([]message.Stored, error) {
	byAuthor, all := byAuthor(ranges)
	q := search{
		index: byFrom.name(), bounds: all, order: order, limit: limit, first: recently,
		keep: func(ref message.Ref) bool {
			return slices.ContainsFunc(byAuthor[ref.From], func(in message.Range) bool { return in.After.Less(ref.ID) && ref.ID.Less(in.Before) })
		},
	}
	authors := make([]message.UserID, 0, len(byAuthor))
	for author := range byAuthor {
		authors = append(authors, author)
	}
	slices.Sort(authors)
	for some := range slices.Chunk(authors, authorsPerQuery) {
		q.filters = append(q.filters, bson.D{{Key: fieldFrom, Value: in(some)}, {Key: fieldAudience, Value: message.AudienceFollowers}})
	}
	return s.searchAll(ctx, q)
}

// byAuthor returns the ranges of each author that are not empty, and the window that holds all of them.
func byAuthor(ranges []message.Range) (map[message.UserID][]message.Range, window) {
	byAuthor := make(map[message.UserID][]message.Range)
	all := window{from: message.MaxID}
	for _, in := range ranges {
		if in.After.Next().Less(in.Before) {
			byAuthor[in.From] = append(byAuthor[in.From], in)
			all.from, all.to = least(all.from, in.After.Next()), greatest(all.to, in.Before)
		}
	}
	return byAuthor, all
}

// Naming implements message.Store. The query asks every shard. Its first window is the whole range, because few messages name a
// user.
func (s *Messages) Naming(ctx context.Context, user message.UserID, after, before message.ID, order message.Order, limit int) ([]message.Stored, error) {
	return s.searchAll(ctx, search{
		filters: []bson.D{{{Key: fieldTo, Value: user}}}, index: byTo.name(),
		bounds: window{after.Next(), before}, order: order, limit: limit,
	})
}

// Unfinished implements message.Store. It asks every shard.
func (s *Messages) Unfinished(ctx context.Context, after message.ID, limit int) ([]message.Ref, error) {
	return s.search(ctx, search{
		filters: []bson.D{{{Key: fieldUnfinished, Value: true}}}, index: byUnfinished.name(),
		bounds: window{after.Next(), message.MaxID}, order: message.OldestFirst, limit: limit,
	})
}

// searchAll returns the messages that a search finds. It searches again if one was removed before it was read, because a caller takes fewer
// messages than the limit for all of them. One that is found again and is not there was lost.
func (s *Messages) searchAll(ctx context.Context, q search) ([]message.Stored, error) {
	for lost := (message.ID{}); ; {
		refs, err := s.search(ctx, q)
		if err != nil {
			return nil, err
		}
		messages, missing, err := s.getAll(ctx, refs)
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
func (s *Messages) getAll(ctx context.Context, refs []message.Ref) (messages []message.Stored, missing message.ID, err error) {
	messages = make([]message.Stored, len(refs))
	place := make(map[message.ID]int, len(refs))
	for i, ref := range refs {
		place[ref.ID] = i
	}
	err = s.byRef(refs, func(filter bson.D) error {
		records, err := all[messageRecord](ctx, s.c, "get messages", filter, options.Find())
		for _, r := range records {
			stored, err := r.stored()
			if err != nil {
				return err
			}
			messages[place[stored.ID]] = stored
		}
		return err
	})
	for i, m := range messages {
		if m.ID.IsZero() && missing.IsZero() {
			missing = refs[i].ID
		}
	}
	return messages, missing, err
}

// CountToFollowers implements message.Store. The index holds every field that counting needs, so a server that can answer from
// the index alone reads no message.
func (s *Messages) CountToFollowers(ctx context.Context, ranges []message.Range, slack time.Duration) (count int64, err error) {
	for _, stretches := range stretchesOf(ranges) {
		filter := bson.D{
			{Key: "$or", Value: stretches},
			{Key: fieldAudience, Value: message.AudienceFollowers},
			{Key: fieldLag, Value: operator("$lte", slack.Milliseconds())},
		}
		err := s.c.call(ctx, "count messages", func(ctx context.Context) error {
			n, err := s.c.CountDocuments(ctx, filter, options.Count().SetHint(byFrom.name()))
			if err == nil {
				count += n
			}
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return count, nil
}

// stretchesOf returns filters that find every message in ranges exactly once. Each group of filters is one query. Ranges of
// many authors often have the same ends, so one filter covers many authors.
func stretchesOf(ranges []message.Range) (groups [][]bson.D) {
	type stretch struct{ after, before message.ID }
	authors := make(map[stretch][]message.UserID)
	for _, in := range ranges {
		if at := (stretch{in.After, in.Before}); in.After.Next().Less(in.Before) {
			authors[at] = append(authors[at], in.From)
		}
	}
	var filters []bson.D
	size := 0
	for at, from := range authors {
		slices.SortFunc(from, cmp.Compare)
		for some := range slices.Chunk(from, authorsPerQuery) {
			if size += len(some); size > authorsPerQuery || len(filters) == stretchesPerQuery {
				groups, filters, size = append(groups, filters), nil, len(some)
			}
			filters = append(filters, bson.D{
				{Key: fieldFrom, Value: in(some)},
				{Key: fieldID, Value: bson.D{{Key: "$gt", Value: uuid(at.after)}, {Key: "$lt", Value: uuid(at.before)}}},
			})
		}
	}
	if len(filters) > 0 {
		groups = append(groups, filters)
	}
	return groups
}
