package httpapi

import (
	"net/http"
	"strconv"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// storedMemory is the most that the buckets take that are read at a time for inbox:stored, without contents.
const storedMemory = 4 << 20

func (s *server) storedInbox(w *response, r *http.Request, user message.UserID) error {
	var before uint64
	if query := r.URL.Query(); query.Has("before") {
		var err error
		if before, err = strconv.ParseUint(query.Get("before"), 10, 32); err != nil || before == 0 {
			return &message.InvalidError{Field: "before", Reason: "is not the sequence of a bucket with others below it: give the next of the page before"}
		}
	}
	stored, err := s.Inbox.Stored(r.Context(), user, uint32(before))
	if err != nil {
		return err
	}
	state := stored.State
	answer := client.StoredInbox{
		Buckets: make([]client.StoredBucket, len(stored.Buckets)), Gaps: make([]client.Gap, len(state.Gaps)),
		Horizon: client.Time{Time: state.Horizon}, SeenMark: state.Seen, Purged: idOrNil(state.Purged),
	}
	for i, b := range stored.Buckets {
		answer.Buckets[i] = client.StoredBucket{
			Sequence: b.Sequence, Slots: b.Slots, First: b.Least, Last: b.Greatest, Tombstones: b.Tombstones, Expired: b.Expired, Flags: b.Flagged, Stub: b.Stub,
		}
	}
	if stored.Next > 0 {
		answer.Next = client.Cursor(strconv.FormatUint(uint64(stored.Next), 10))
	}
	for i, gap := range state.Gaps {
		answer.Gaps[i] = wireGap(gap)
	}
	if mark := state.ReadMark; !mark.UpTo.IsZero() {
		answer.ReadMark = &client.StoredReadMark{
			UpTo: *idOrNil(mark.UpTo), Sequence: mark.Sequence, Slots: mark.Slots, Gaps: mark.Gaps, Read: mark.Read, InGap: mark.InGap,
		}
	}
	answer.Mark, answer.Sweep = wireRehydration(state)
	return writeJSON(w, http.StatusOK, client.ContentJSON, answer)
}
