package httpapi

import (
	"net/http"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
	"github.com/fanmail/fanmail/pkg/verdict"
)

func (s *server) explain(w *response, r *http.Request) error {
	query := r.URL.Query()
	user := message.UserID(query.Get("user"))
	if err := user.Validate("user"); err != nil {
		return err
	}
	id, err := message.ParseID(query.Get("message"))
	if err != nil {
		return &message.InvalidError{Field: "message", Reason: "is not the id of a message: give one as publishing it answered"}
	}
	explained, err := s.Audit.Explain(r.Context(), user, id)
	if err != nil {
		return err
	}
	answer := explanation(explained)
	state, there, err := s.Inbox.StateOf(r.Context(), user, id)
	if err != nil {
		return err
	}
	if there {
		answer.Read, answer.Archived = &state.Read, &state.Archived
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, answer)
}

func explanation(e audit.Explanation) client.Explanation {
	answer := client.Explanation{
		User: e.User, Message: e.Message, Verdict: e.Verdict, Sentence: e.Sentence,
		From: e.Stored.From, StoredAt: client.Time{Time: e.Stored.StoredAt}, Audience: e.Stored.Audience,
		Named: e.Named, Spans: []client.Span{},
		LastViewed: client.Time{Time: e.State.LastViewed}, Horizon: client.Time{Time: e.Horizon},
	}
	for _, edge := range e.Edges {
		spans := []client.Span{}
		for _, span := range edge.Spans {
			spans = append(spans, client.Span{Since: client.Time{Time: span.Since}, Until: client.Time{Time: span.Until}})
		}
		switch topic, ok := edge.Followee.Topic(); {
		case !ok:
			answer.Spans = spans
		case len(spans) > 0:
			answer.Subscriptions = append(answer.Subscriptions, client.Subscriptions{Topic: topic, Spans: spans})
		}
	}
	answer.Mark, answer.Sweep = wireRehydration(e.State)
	if e.Gap != nil {
		gap := wireGap(*e.Gap)
		answer.Gap = &gap
	}
	if e.Verdict != verdict.UnknownMessage {
		answer.Sent = client.Time{Time: e.Stored.Sent()}
		answer.Fanout = &client.PartitionFanout{
			Partition: e.Partition, Planned: e.Planned, Recipients: e.InPlan, Passed: e.Passed(),
			Done: e.Scan.Done, Dead: e.Scan.Dead, At: e.Scan.At,
		}
	}
	if e.Entry != nil {
		answer.Entry = &client.EntryPlace{
			Bucket: e.At.Sequence, Slot: e.At.Slot, Recovered: e.Entry.Recovered, Deleted: e.Entry.Deleted,
		}
	}
	return answer
}

func wireRehydration(state userstate.State) (mark *client.Mark, sweep *client.Sweep) {
	if m := state.Mark; m != nil {
		lease := state.Lease
		mark = &client.Mark{From: client.Time{Time: m.From}, Since: client.Time{Time: lease.Since}, LeaseUntil: client.Time{Time: lease.Until}}
	}
	if w := state.Sweep; w != nil {
		sweep = &client.Sweep{From: client.Time{Time: w.From}}
	}
	return mark, sweep
}

func wireGap(gap userstate.Gap) client.Gap {
	return client.Gap{After: client.Time{Time: gap.After}, Before: client.Time{Time: gap.Before}, Messages: gap.Messages}
}
