package mongostore

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// sectionsAtOnce and deletionsAtOnce are how many owners one query of buckets and of deletions covers. A thousand owners then take 8 and 2
	// queries.
	sectionsAtOnce  = 250
	deletionsAtOnce = 500
	// reply is how many documents of such a query fit into one reply. A server sends fewer if they are too large.
	reply = 10_000
)

// whole is a projection onto the parts of a bucket that are read with a field; nil is all of them.
func whole(field bucket.Field) bson.D {
	projection := fields(fieldOwner, fieldSequence, fieldSlots, fieldDecl, fieldFloor, fieldLast, fieldLate, fieldStub)
	names := []string{fieldEntryID, fieldDeleted, fieldExpired}
	switch field {
	case bucket.AllFields:
		return nil
	case bucket.NoEntries:
		return projection
	case bucket.NoBody:
		names = append(names, slices.DeleteFunc(slices.Clone(contentFields), func(name string) bool { return name == "body" })...)
	case bucket.FieldFrom:
		names = append(names, fieldEntryFrom)
	case bucket.FieldAttrs:
		names = append(names, fieldEntryAttrs)
	case bucket.NoFields:
	}
	for _, name := range names {
		projection = append(projection, bson.E{Key: path(fieldEntries, name), Value: 1})
	}
	return append(projection, bson.E{Key: fieldPurged, Value: 1})
}

// withoutContents is a projection onto a bucket whose entries have no contents.
var withoutContents = whole(bucket.NoFields)

// Range implements bucket.Store by queries at the same time. One covers many sections, unless they have a limit. Late buckets have queries of their
// own. Such a query is for owners with nearly the same bound, and takes the highest one for all, because few buckets are late.
func (s *Inbox) Range(ctx context.Context, sections []bucket.Section, field bucket.Field) ([][]bucket.Bucket, error) {
	places := make(map[message.UserID]int, len(sections))
	var near, late []bucket.Section
	var filters []bson.D
	var limits []bucket.Section // of the first filters
	for i, section := range sections {
		places[section.Owner] = i
		switch {
		case section.Low > section.High:
		case section.Bytes > 0 || section.Limit > 0 && int64(section.Limit) <= int64(section.High)-int64(section.Low): // there may be more
			filters, limits = append(filters, within([]bucket.Section{section})), append(limits, section)
		default:
			near = append(near, section)
		}
		if !section.Late.IsZero() {
			late = append(late, section)
		}
	}
	slices.SortFunc(near, func(x, y bucket.Section) int {
		return cmp.Or(cmp.Compare(x.Low, y.Low), cmp.Compare(x.High, y.High), cmp.Compare(x.Owner, y.Owner))
	})
	slices.SortFunc(late, func(x, y bucket.Section) int { return x.Late.Compare(y.Late) })
	for some := range slices.Chunk(near, sectionsAtOnce) {
		filters = append(filters, within(some))
	}
	nearby := len(filters)
	for some := range slices.Chunk(late, sectionsAtOnce) {
		filters = append(filters, cameLate(some))
	}
	found := make([][]bucketRecord, len(filters))
	err := s.c.db.each(ctx, len(filters), func(ctx context.Context, i int) (err error) {
		find := options.Find().SetBatchSize(reply)
		if projection := whole(field); projection != nil {
			find.SetProjection(projection)
		}
		if i >= len(limits) {
			found[i], err = all[bucketRecord](ctx, s.c, "read buckets", filters[i], find)
			return err
		}
		find.SetSort(bson.D{{Key: fieldSequence, Value: -1}}).SetLimit(int64(limits[i].Limit)) // sort, so that the server leaves out the right ones
		size := 0
		return s.c.scan(ctx, "read buckets", filters[i], find, func() { found[i], size = nil, 0 }, func(raw bson.Raw) error {
			if limits[i].Bytes > 0 && size >= limits[i].Bytes {
				return errEnough
			}
			found[i], size = append(found[i], bucketRecord{}), size+len(raw)
			return decode(s.c.Name(), raw, &found[i][len(found[i])-1])
		})
	})
	if err != nil {
		return nil, err
	}
	records := make([][]bucketRecord, len(sections))
	for i, some := range found {
		for k := range some {
			at := places[some[k].Owner]
			if i < nearby || some[k].lateIn(sections[at]) {
				records[at] = append(records[at], some[k])
			}
		}
	}
	buckets := make([][]bucket.Bucket, len(sections))
	for i := range records {
		if buckets[i], err = bucketsOf(records[i], field); err != nil {
			return nil, err
		}
	}
	return buckets, nil
}

// within returns a filter for the buckets of sections, without the late ones. Neighbours with the same bounds share one condition, as in anyOf.
func within(sections []bucket.Section) bson.D {
	var alternatives bson.A
	for len(sections) > 0 {
		first, owners := sections[0], []message.UserID(nil)
		for len(sections) > 0 && sections[0].Low == first.Low && sections[0].High == first.High {
			owners = append(owners, sections[0].Owner)
			sections = sections[1:]
		}
		one := bson.D{
			{Key: fieldOwner, Value: in(owners)},
			{Key: fieldSequence, Value: bson.D{{Key: "$gte", Value: int64(first.Low)}, {Key: "$lte", Value: int64(first.High)}}},
		}
		if len(sections) == 0 && alternatives == nil {
			return one
		}
		alternatives = append(alternatives, one)
	}
	return operator("$or", alternatives)
}

// cameLate returns a filter for the late buckets of sections that ascend by Late.
func cameLate(sections []bucket.Section) bson.D {
	owners, above := make([]message.UserID, len(sections)), sections[0].High
	for i, section := range sections {
		owners[i], above = section.Owner, min(above, section.High)
	}
	return bson.D{
		{Key: fieldOwner, Value: in(owners)},
		{Key: fieldLate, Value: append(operator("$lt", uuid(sections[len(sections)-1].Late)), exists...)}, // as the partial index has it
		{Key: fieldSequence, Value: operator("$gt", int64(above))},
	}
}

// lateIn reports whether a bucket with a late entry is one of a section.
func (r *bucketRecord) lateIn(section bucket.Section) bool {
	return r.Late != nil && bytes.Compare(r.Late.Data, section.Late[:]) < 0 && r.Sequence > int64(section.High)
}

// Deletions implements bucket.Store. The queries read only buckets with tombstones, and no entries. A query is for owners with nearly the same
// bound, and returns the tombstones from the lowest one on.
func (s *Inbox) Deletions(ctx context.Context, from []bucket.Head) ([]bucket.Deletions, error) {
	places := make(map[message.UserID]int, len(from))
	for i, f := range from {
		places[f.Owner] = i
	}
	ordered := slices.SortedFunc(slices.Values(from), func(x, y bucket.Head) int { return cmp.Compare(x.Hint.Sequence, y.Hint.Sequence) })
	chunks := slices.Collect(slices.Chunk(ordered, deletionsAtOnce))
	found := make([][]bucketRecord, len(chunks))
	err := s.c.db.each(ctx, len(chunks), func(ctx context.Context, i int) (err error) {
		owners := make([]message.UserID, len(chunks[i]))
		for k, f := range chunks[i] {
			owners[k] = f.Owner
		}
		projection := append(deletionFields(chunks[i][0].Hint.Sequence), bson.E{Key: fieldOwner, Value: 1})
		find := options.Find().SetProjection(projection).SetBatchSize(reply)
		found[i], err = all[bucketRecord](ctx, s.c, "read deletions", withDeletions(in(owners)), find)
		return err
	})
	if err != nil {
		return nil, err
	}
	deletions := make([]bucket.Deletions, len(from))
	for _, records := range found {
		for k := range records {
			r := &records[k]
			at := places[r.Owner]
			if r.Sequence < int64(from[at].Hint.Sequence) {
				r.Tombstones = nil
			}
			if err := r.addTo(&deletions[at], s.size); err != nil {
				return nil, err
			}
		}
	}
	return deletions, nil
}
