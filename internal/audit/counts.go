package audit

import (
	"context"
	"fmt"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/verdict"
)

// readFlags reads the flags of single messages. They are read after the user's record and before the buckets, as whoever counts does.
func (l *look) readFlags(ctx context.Context) (err error) {
	if l.state.Flagged {
		l.flags, err = flag.Get(ctx, l.stores.Flags, l.user)
	}
	return err
}

// checkCounts compares the counts that pages show, which are computed, with the messages, counted one by one. The inbox may change between the two;
// then the finding has other numbers of slots and deletions, which only rise, and the next look does not find it again.
func (l *look) checkCounts(ctx context.Context) error {
	if l.busy || l.expired != l.state.Purged || len(l.found) > 0 {
		return nil // it is about to change, or lost slots are counted
	}
	state := l.state
	counted, err := bucket.ReadCounts(ctx, l.stores.Buckets, []bucket.CountRequest{{Owner: l.user, Hint: state.Head, Basis: state.Basis(l.flags)}})
	if err == nil {
		err = counted[0].Err
	}
	if err != nil {
		return fmt.Errorf("counts of %s: %w", l.user, err)
	}
	if c, are := counted[0], l.recount(); c.Tally != are {
		l.find(Finding{Kind: verdict.Counts}, "the counts say %s; there are %s (with %d slots, %d deletions and revision %d of the flags)",
			numbers(c.Tally), numbers(are), c.Slots, c.Deleted, l.flags.Revision)
	}
	return nil
}

func numbers(t bucket.Tally) string {
	return fmt.Sprintf("%d, %d of them unread and %d unseen, and %d archived", t.Total, t.Unread, t.Unseen, t.Archived)
}

// recount counts the messages that the look has seen, and those in gaps by the numbers that checkGaps has compared.
func (l *look) recount() (t bucket.Tally) {
	mark, size := l.state.ReadMark, l.stores.Buckets.Size()
	for _, h := range l.holds {
		if h.deleted || !l.expired.Less(h.id) {
			continue
		}
		at := bucket.Found{Entry: bucket.Entry{ID: h.id}, Sequence: h.sequence, Position: size.Position(h.sequence, int(h.slot))}
		flags := l.flags.In(h.sequence).Of(int(h.slot))
		if flags.Archived() {
			t.Archived++
			continue
		}
		t.Total++
		if !flags.Read(mark.Says(at, nil)) {
			t.Unread++
		}
		if at.Position >= l.state.Seen {
			t.Unseen++
		}
	}
	for i, gap := range l.state.Gaps {
		t.Total += gap.Messages
		t.Unread += gap.Messages - mark.ReadIn(i, gap)
	}
	absent := func(id message.ID, by int64, flags flag.Flags) {
		covered := mark.Says(bucket.Found{Entry: bucket.Entry{ID: id}, Absent: true}, l.state.Gaps)
		t.Total += by
		if !flags.Read(covered) {
			t.Unread += by
		}
	}
	for id, n := range l.deleted {
		absent(id, -n, 0)
	}
	for _, m := range l.flags.Messages {
		if l.gap(m.ID) < 0 || l.deleted[m.ID] > 0 {
			continue
		}
		absent(m.ID, -1, 0)
		if m.Flags.Archived() {
			t.Archived++
		} else {
			absent(m.ID, 1, m.Flags)
		}
	}
	return t
}
