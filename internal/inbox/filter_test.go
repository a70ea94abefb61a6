package inbox_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/internal/inbox"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/statemachine/rig"
)

var declared = attribute.NewSet(2, []attribute.Declaration{
	{Name: "total", Type: attribute.Number, Number: 1}, {Name: "kind", Type: attribute.String, Number: 2},
})

// attributed returns the nth message: its author, total and kind follow from n, and every seventh has no kind. Those of author1 are to followers.
func attributed(n int) message.Message {
	m := message.Message{ID: id(n), From: message.UserID(fmt.Sprintf("author%d", n%3)), To: []message.UserID{"ann"}, Body: "x"}
	if m.From == "author1" {
		m.To, m.Audience = nil, message.AudienceFollowers
	}
	if m.Attrs = json.RawMessage(fmt.Sprintf(`{"total":%d,"kind":"k%d"}`, n%10, n%4)); n%7 == 0 {
		m.Attrs = json.RawMessage(fmt.Sprintf(`{"total":%d,"other":["kind"]}`, n%10))
	}
	return m
}

// filtering is the state of ann's inbox, and the budgets of a page. Some of its messages are in buckets, and the others are in a gap, or are still
// going to be appended.
type filtering struct {
	buckets, messages  int
	rebuilding, purged bool
}

func (f filtering) world(t *testing.T) *world {
	t.Helper()
	w := newWorldWith(t, func(opts *rehydrate.Options) { opts.Limit = 60 })
	_, err := w.Edges.Follow(t.Context(), []follow.Pair{{Follower: "ann", Followee: "author1"}}, rig.Epoch)
	require.NoError(t, err)
	var missed []message.Message
	for n := range 200 {
		missed = append(missed, attributed(n))
	}
	_, err = w.Messages.Insert(t.Context(), missed, rig.Rules().Timing())
	require.NoError(t, err)
	w.Clock.Advance(2 * rig.Slack)
	_, err = w.rehydrator.Arrive(t.Context(), "ann", w.Clock.Now())
	require.NoError(t, err)
	if !f.rebuilding {
		w.work(t) // 140 messages are in a gap
	}
	for _, odd := range []int{0, 1} { // the odd ones come late
		var entries []bucket.Entry
		for n := 200 + odd; n < 420; n += 2 {
			entries = append(entries, bucket.EntryOf(attributed(n)))
		}
		results, err := w.Appender.Append(t.Context(), []bucket.Append{{Owner: "ann", Entries: entries}})
		require.NoError(t, err)
		require.Equal(t, 110, results[0].New)
	}
	if !f.rebuilding {
		require.NoError(t, w.MarkRead(t.Context(), "ann", id(150)))
	}
	for _, n := range []int{10, 170, 210, 333} {
		require.NoError(t, w.Delete(t.Context(), "ann", id(n)))
	}
	if f.purged {
		_, err := w.Purge(t.Context(), "ann", id(99).Time(), false)
		require.NoError(t, err)
	}
	w.Service = inbox.New(inbox.Stores{Buckets: w.Inbox, Users: w.Users, Appender: w.Appender, Flags: w.Flags}, w.rehydrator, inbox.Options{
		Rules: rig.Rules, Now: w.Clock.Now,
		Attributes: func() attribute.Set { return declared }, FilterBuckets: f.buckets, FilterMessages: f.messages,
	})
	return w
}

// shows reports whether the inbox has the nth message.
func (f filtering) shows(n int) bool {
	return n != 10 && n != 170 && n != 210 && n != 333 && (!f.purged || n > 99)
}

// TestFilter compares the pages of random filters, put together, with a filter of the whole inbox.
func TestFilter(t *testing.T) {
	t.Parallel()
	conditions := map[string]func(n int) bool{
		"total:gte:7":       func(n int) bool { return n%10 >= 7 },
		"total:eq:3":        func(n int) bool { return n%10 == 3 },
		"kind:in:k1,k3":     func(n int) bool { return n%7 != 0 && n%2 == 1 },
		"kind:ne:k0":        func(n int) bool { return n%7 != 0 && n%4 != 0 },
		"kind:exists:false": func(n int) bool { return n%7 == 0 },
		"total:lt:0":        func(int) bool { return false },
	}
	names := []string{"total:gte:7", "total:eq:3", "kind:in:k1,k3", "kind:ne:k0", "kind:exists:false", "total:lt:0"}
	type inboxOf struct {
		filtering
		w     *world
		whole int
	}
	var inboxes []inboxOf
	for _, f := range []filtering{
		{buckets: 2, messages: 2},
		{buckets: 4, messages: 30},
		{buckets: 200, messages: 2000},
		{buckets: 3, messages: 20, rebuilding: true},
		{buckets: 200, messages: 2000, rebuilding: true},
		{buckets: 3, messages: 20, purged: true},
	} {
		one := inboxOf{filtering: f, w: f.world(t)}
		for n := range 420 {
			if f.shows(n) {
				one.whole++
			}
		}
		inboxes = append(inboxes, one)
	}
	rapid.Check(t, func(t *rapid.T) {
		f := inboxes[rapid.IntRange(0, len(inboxes)-1).Draw(t, "inbox")]
		filter := inbox.Filter{Attrs: rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 2, rapid.ID).Draw(t, "attrs"), Unread: rapid.Bool().Draw(t, "unread")}
		if rapid.Bool().Draw(t, "by author") {
			filter.From = "author1"
		}
		var want []message.ID
		for n := 419; n >= 0; n-- {
			holds := f.shows(n) && (filter.From == "" || n%3 == 1) && (!filter.Unread || n > 150 || f.rebuilding)
			for _, c := range filter.Attrs {
				holds = holds && conditions[c](n)
			}
			if holds {
				want = append(want, id(n))
			}
		}
		var got []message.ID
		filtered := len(filter.Attrs) > 0 || filter.Unread || filter.From != ""
		for req := (inbox.Request{Limit: rapid.SampledFrom([]int{1, 10, 50, 200}).Draw(t, "limit"), Peek: true, Filter: filter}); ; {
			page, err := f.w.Read(t.Context(), "ann", req)
			require.NoError(t, err)
			if !f.rebuilding {
				require.EqualValues(t, f.whole, page.Total, "that of the whole inbox")
			}
			if filtered {
				require.LessOrEqual(t, page.Messages, f.messages)
			}
			for _, e := range page.Entries {
				got = append(got, e.ID)
			}
			if req.Before = page.Next; page.Next == "" {
				break
			}
		}
		require.Equal(t, want, got)
	})
}

func TestFilterIsRefused(t *testing.T) {
	t.Parallel()
	w := filtering{}.world(t)
	for want, filter := range map[string]inbox.Filter{
		`attr names the attribute "totl", which is not declared: do you mean total?`:  {Attrs: []string{"totl:eq:1"}},
		`attr names the attribute "invoice", which is not declared: declare it first`: {Attrs: []string{"invoice:eq:1"}},
		"attr has a value for total that is declared as number, and is not a number":  {Attrs: []string{"total:eq:many"}},
		"attr is one of 5 conditions, with from and unread: at most 4 are allowed":    {Attrs: []string{"total:eq:1", "total:eq:1", "total:eq:1"}, From: "ben", Unread: true},
		`from contains white space (U+0020)`:                                          {From: "a b"},
	} {
		_, err := w.Read(t.Context(), "ann", inbox.Request{Limit: 1, Filter: filter})
		require.ErrorIs(t, err, message.ErrInvalid)
		require.EqualError(t, err, want)
	}
}
