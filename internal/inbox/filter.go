package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

const (
	defaultFilterBuckets  = 200
	defaultFilterMessages = 2000
)

// MaxConditions is how many conditions a Filter has at most.
const MaxConditions = 4

// Filter says which messages a page shows: those for which all conditions hold. The zero Filter has none.
type Filter struct {
	// From is the author; empty for any.
	From message.UserID
	// Unread selects the messages that are not read.
	Unread bool
	// Archived says which messages are selected by whether they are archived. It is no condition.
	Archived Archived
	// Attrs are conditions on declared attributes, such as total:gte:64: see attribute.Set.ParseCondition.
	Attrs []string
}

// Archived selects messages by whether they are archived.
type Archived int

const (
	// ArchivedOut leaves archived messages out.
	ArchivedOut Archived = iota
	// ArchivedOnly selects archived messages only.
	ArchivedOnly
	// ArchivedToo selects all messages.
	ArchivedToo
)

// scanned is the number of buckets that a filtered page reads in order although there is an index. One call reads as many.
const scanned = 32

// count returns how many conditions the filter has.
func (f Filter) count() int {
	n := len(f.Attrs)
	if f.From != "" {
		n++
	}
	if f.Unread {
		n++
	}
	return n
}

// matcher is a Filter whose conditions are parsed.
type matcher struct {
	Filter
	conditions []attribute.Condition
	named      attribute.Set // the attributes of the conditions
}

// parse returns a *message.InvalidError for a filter that is not valid.
func (s *Service) parse(f Filter) (m matcher, err error) {
	m.Filter = f
	if n := f.count(); n > MaxConditions {
		return m, &message.InvalidError{
			Field: "attr", Reason: fmt.Sprintf("is one of %d conditions, with from and unread: at most %d are allowed", n, MaxConditions),
		}
	}
	if f.From != "" {
		if err := f.From.Validate("from"); err != nil {
			return m, err
		}
	}
	if len(f.Attrs) == 0 {
		return m, nil
	}
	declared := s.opts.Attributes()
	var named []attribute.Declaration
	for _, text := range f.Attrs {
		c, err := declared.ParseCondition("attr", text)
		if unknown, ok := errors.AsType[*attribute.UndeclaredError](err); ok {
			err = undeclared("attr", declared, unknown.Name)
		}
		if err != nil {
			return m, err
		}
		m.conditions, named = append(m.conditions, c), append(named, c.Declaration)
	}
	m.named = attribute.NewSet(declared.Greatest(), named)
	return m, nil
}

// undeclared returns the error for a parameter that names an attribute that is not declared.
func undeclared(field string, declared attribute.Set, name string) error {
	return &message.InvalidError{
		Field: field, Reason: fmt.Sprintf("names the attribute %q, which is not declared: %s", name, hint(declared, name)),
	}
}

// hint says which declared attributes may be meant by a name, at most three.
func hint(declared attribute.Set, name string) string {
	distance := func(d attribute.Declaration) int { return levenshtein.ComputeDistance(name, d.Name) }
	similar := slices.DeleteFunc(declared.All(), func(d attribute.Declaration) bool { return distance(d) > max(1, len(d.Name)/3) })
	slices.SortStableFunc(similar, func(x, y attribute.Declaration) int { return cmp.Compare(distance(x), distance(y)) })
	var names []string
	for _, d := range similar[:min(3, len(similar))] {
		names = append(names, d.Name)
	}
	if len(names) == 0 {
		return "declare it first"
	}
	return "do you mean " + strings.Join(names, " or ") + "?"
}

// matches reports whether all conditions hold for a message of the inbox.
func (m matcher) matches(found bucket.Found, v view) bool {
	if m.From != "" && found.From != m.From || m.Unread && v.read(found) ||
		m.Archived == ArchivedOut && v.archived(found) || m.Archived == ArchivedOnly && !v.archived(found) {
		return false
	}
	if len(m.conditions) == 0 {
		return true
	}
	values := m.named.Read(found.Attrs)
	return !slices.ContainsFunc(m.conditions, func(c attribute.Condition) bool { return !c.Holds(values) })
}

// filters reports whether a page may leave messages out.
func (m matcher) filters(v view) bool {
	return m.count() > 0 || m.Archived == ArchivedOnly || m.Archived == ArchivedOut && v.flags.AnyArchived()
}

// filter returns the filter of a page, or nil if it shows all messages.
func (s *Service) filter(m matcher, v view, feed *rehydrate.Feed) *bucket.Filter {
	if !m.filters(v) {
		return nil
	}
	return &bucket.Filter{
		Keep:    func(found bucket.Found) bool { return m.matches(found, v) },
		Buckets: s.opts.FilterBuckets, Messages: s.opts.FilterMessages, OnRead: feed.Search, Search: s.search(m, v.state.User),
	}
}

// view is what the owner of an inbox has done with its messages.
type view struct {
	state userstate.State
	flags flag.Record
	size  bucket.Size
}

// view returns the flags of a user, after their state was read and before the buckets are.
func (s *Service) view(ctx context.Context, state userstate.State) (v view, err error) {
	v = view{state: state, size: s.stores.Shown.Buckets.Size()}
	if s.flagged(state) {
		v.flags, err = flag.Get(ctx, s.stores.Shown.Flags, state.User)
	}
	return v, err
}

func (v view) read(f bucket.Found) bool {
	return flagsOf(v.flags, v.size, f).Read(v.state.ReadMark.Says(f, v.state.Gaps))
}

// message returns a message with its state.
func (v view) message(f bucket.Found) Message {
	return Message{Found: f, Read: v.read(f), Archived: v.archived(f)}
}

// sequence returns the bucket of a position.
func (v view) sequence(at int64) uint32 { return uint32(at / int64(v.size)) } //nolint:gosec // it is a sequence

func (v view) archived(f bucket.Found) bool { return flagsOf(v.flags, v.size, f).Archived() }

// search returns how an index finds the entries of a page: by the condition that the fewest entries may meet. It returns nil if there is no index, or no
// condition for it.
func (s *Service) search(m matcher, user message.UserID) *bucket.Search {
	if s.stores.Shown.Index == nil {
		return nil
	}
	facets, number, selectivity := attribute.Narrowest(m.conditions)
	if selectivity == attribute.Unindexed {
		return nil
	}
	return &bucket.Search{
		Index: s.stores.Shown.Index, Number: number, Facets: facets, Scan: scanned,
		Purged: func(ctx context.Context) (message.ID, error) {
			state, err := s.shown(ctx, user)
			return state.Purged, err
		},
	}
}
