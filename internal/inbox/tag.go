package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// tag returns a hash of everything that the first page of all messages and the counts depend on, or nothing if the inbox is not complete: then
// messages may appear without a change of these. The numbers must be as old as what was shown with them, or older.
func (s *Service) tag(v view, rules userstate.Rules, slots, deleted int64) string {
	if !s.complete(v.state, rules) {
		return ""
	}
	st, h := v.state, sha256.New()
	_, _ = fmt.Fprint(h, s.opts.Epoch(), slots, deleted, v.flags.Revision, st.Marks, st.Seen, st.ReadMark, st.Purged, st.GapsMade, st.Gaps)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:12])
}

// Tag returns the Tag that a first page of all messages would have now. It counts as a view, unless peek is set, and reads no contents of messages,
// and the ids of one bucket only. It returns userstate.ErrNotFound as Read does.
func (s *Service) Tag(ctx context.Context, user message.UserID, peek bool) (string, error) {
	rules := s.opts.Rules()
	state, err := s.look(ctx, user, rules, peek)
	if err != nil {
		return "", err
	}
	v, err := s.view(ctx, state)
	if err != nil {
		return "", err
	}
	deletions, err := bucket.ReadDeletions(ctx, s.stores.Shown.Buckets, user, bucket.Unlocated)
	if err != nil {
		return "", err
	}
	head, err := bucket.ReadHead(ctx, s.stores.Shown.Buckets, user, state.Head)
	if err != nil {
		return "", err
	}
	return s.tag(v, rules, head.End(v.size), deletions.Total), nil
}
