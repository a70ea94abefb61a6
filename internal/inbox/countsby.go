package inbox

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// maxCounted is how many messages CountBy counts at most.
	maxCounted = 1000
	// maxValues is how many values CountBy returns at most. More are possible only if messages have lists of strings.
	maxValues = 1000
)

// Values is how many of the newest messages of an inbox have each value.
type Values struct {
	// Counts are ordered by Total, descending, and then by their values. A value of nil comes last.
	Counts []ValueCount
	// Counted counts the messages: at most 1,000.
	Counted int
	// Complete reports whether these are all messages of the inbox, none is missing as with Page, and all values are in Counts.
	Complete bool
	// Buckets counts the buckets that were read, and Messages the messages that were read for gaps.
	Buckets  int
	Messages int
}

// ValueCount is how many messages have a value, and how many of them are unread.
type ValueCount struct {
	// Value is a string, a float64, a bool or a time.Time. It is nil for messages without the attribute.
	Value         any
	Total, Unread int64
}

// CountBy counts the newest 1,000 messages of an inbox that are not archived: by their authors if by is "from", by a declared attribute if it is
// "attr:" and a name. A message with a list of strings counts once for each of its strings. CountBy counts fewer if the budgets of Options do not
// suffice.
//
// It counts what is stored: messages that a rehydration has not appended yet are missing. It is no view, starts no rehydration and waits for
// none. It reads no bodies of the messages in buckets. It returns a *message.InvalidError for another by, and userstate.ErrNotFound for a user who
// was never seen.
func (s *Service) CountBy(ctx context.Context, user message.UserID, by string) (Values, error) {
	field, valuesOf, err := s.parseBy(by)
	if err != nil {
		return Values{}, err
	}
	rules := s.opts.Rules()
	state, err := s.seen(ctx, user)
	if err != nil {
		return Values{}, err
	}
	v, err := s.view(ctx, state)
	if err != nil {
		return Values{}, err
	}
	gaps := make([]bucket.Stretch, len(state.Gaps))
	for i, gap := range state.Gaps {
		gaps[i] = gap.Stretch()
	}
	newest, err := bucket.ReadNewest(ctx, s.stores.Shown.Buckets, bucket.NewestRequest{
		Owner: user, Hint: state.Head, Purged: state.Purged, Field: field, Limit: maxCounted, Absent: gaps,
		Keep:    func(f bucket.Found) bool { return !v.archived(f) },
		Buckets: s.opts.FilterBuckets, Messages: s.opts.FilterMessages, OnRead: s.rehydrator.Feed(user, rules).Search,
	})
	if err != nil {
		return Values{}, err
	}
	counts := make(map[any]*ValueCount)
	for _, found := range newest.Found {
		unread := !v.read(found)
		for _, value := range valuesOf(found.Entry) {
			c := counts[value]
			if c == nil {
				c = &ValueCount{Value: value}
				counts[value] = c
			}
			if c.Total++; unread {
				c.Unread++
			}
		}
	}
	result := Values{
		Counted: len(newest.Found), Complete: newest.Whole && s.complete(state, rules) && len(counts) <= maxValues,
		Buckets: newest.Buckets, Messages: newest.Messages,
	}
	for _, c := range counts {
		result.Counts = append(result.Counts, *c)
	}
	slices.SortFunc(result.Counts, func(x, y ValueCount) int {
		return cmp.Or(cmp.Compare(y.Total, x.Total), compareValues(x.Value, y.Value))
	})
	result.Counts = result.Counts[:min(maxValues, len(result.Counts))]
	return result, nil
}

// parseBy returns the field of an entry that the values are in, and a function that returns the different values of an entry.
func (s *Service) parseBy(by string) (bucket.Field, func(bucket.Entry) []any, error) {
	invalid := func(format string, args ...any) (bucket.Field, func(bucket.Entry) []any, error) {
		return 0, nil, &message.InvalidError{Field: "by", Reason: fmt.Sprintf(format, args...)}
	}
	name, isAttr := strings.CutPrefix(by, "attr:")
	name = name[:min(len(name), attribute.MaxNameBytes)]
	switch {
	case by == "":
		return invalid("is missing: give from, or attr:NAME with the name of a declared attribute")
	case by == "from":
		return bucket.FieldFrom, func(e bucket.Entry) []any { return []any{string(e.From)} }, nil
	case !isAttr:
		return invalid("is %q: give from, or attr:NAME with the name of a declared attribute", name)
	}
	declared := s.opts.Attributes()
	d, found := declared.Find(strings.TrimPrefix(by, "attr:"))
	if !found {
		return 0, nil, undeclared("by", declared, name)
	}
	named := attribute.NewSet(declared.Greatest(), []attribute.Declaration{d})
	return bucket.FieldAttrs, func(e bucket.Entry) []any {
		value, present := named.Read(e.Attrs)[d.Name]
		if !present {
			return []any{nil}
		}
		return elements(d.Type, value)
	}, nil
}

// elements returns the different values of a ValueCount that the value of an attribute stands for.
func elements(t attribute.Type, v attribute.Value) []any {
	switch t {
	case attribute.Number:
		return []any{v.Number}
	case attribute.Bool:
		return []any{v.Bool}
	case attribute.Time:
		return []any{time.UnixMilli(v.Time).UTC()}
	default:
		var all []any
		for _, text := range slices.Compact(slices.Sorted(slices.Values(v.Strings))) {
			all = append(all, text)
		}
		return all
	}
}

// compareValues compares two values of one type, or nil, which comes last.
func compareValues(x, y any) int {
	switch x := x.(type) {
	case string:
		if y, ok := y.(string); ok {
			return cmp.Compare(x, y)
		}
	case float64:
		if y, ok := y.(float64); ok {
			return cmp.Compare(x, y)
		}
	case bool:
		if y, ok := y.(bool); ok {
			return cmp.Compare(strconv.FormatBool(x), strconv.FormatBool(y)) // false comes before true
		}
	case time.Time:
		if y, ok := y.(time.Time); ok {
			return x.Compare(y)
		}
	}
	if y == nil {
		return -1
	}
	return 1
}
