package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/fanmail/fanmail/internal/auth"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

func (s *server) listMessages(w *response, r *http.Request) error {
	selection, err := s.querySelection(r.URL.Query())
	if err == nil {
		err = w.mayList(selection.From)
	}
	if err != nil {
		return err
	}
	statuses, next, err := s.Reporter.List(r.Context(), selection)
	if err != nil {
		return err
	}
	page := client.MessagePage{Messages: make([]client.MessageProgress, len(statuses))}
	for i, status := range statuses {
		id := status.Message.ID
		page.Messages[i] = client.MessageProgress{
			ID: id, From: status.Message.From, Sent: client.Time{Time: id.Time()}, State: status.State, Lane: event.Lane(status.Lane),
			Recipients: status.Delivered + status.Skipped, Delivered: status.Delivered, Skipped: status.Skipped, WaitingFor: status.WaitingFor,
		}
	}
	if !next.IsZero() {
		page.Next = client.Cursor(next.String())
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, page)
}

func (s *server) querySelection(query url.Values) (selection publish.Selection, err error) {
	states := []message.State{message.StatePending, message.StateRunning, message.StateDone, message.StateDead}
	selection.State = message.State(query.Get("state"))
	if query.Has("state") && !slices.Contains(states, selection.State) {
		return selection, &message.InvalidError{Field: "state", Reason: fmt.Sprintf(
			"is %q: give pending, running, done or dead, or leave it out for pending and running", shorten(string(selection.State)))}
	}
	if query.Has("from") {
		selection.From = message.UserID(query.Get("from"))
		if err := selection.From.Validate("from"); err != nil {
			return selection, err
		}
	}
	if query.Has("after") {
		if selection.After, err = message.ParseID(query.Get("after")); err != nil {
			return selection, &message.InvalidError{Field: "after", Reason: "is no cursor: take the next of a page as it is"}
		}
	}
	selection.Limit, err = s.pageSize(query)
	return selection, err
}

// mayList refuses a list of messages to a principal who is no operator, unless they are of an author as whom it may publish.
func (w *response) mayList(from message.UserID) error {
	switch {
	case w.principal.Has(auth.Admin, auth.Operate):
		return nil
	case from == "":
		return refuse(client.ProblemForbidden, "from", "the token does not allow to list the messages of all authors: name a sender of the token as from")
	case !w.principal.Sends(from):
		return refuse(client.ProblemForbidden, "from", "the token does not allow to list the messages of %q, because it does not allow to publish as them",
			shorten(string(from)))
	}
	return nil
}

// partitions returns the progress in each partition, ascending.
func partitions(scans map[int]progress.Scan) []client.PartitionProgress {
	all := make([]client.PartitionProgress, 0, len(scans))
	for _, p := range slices.Sorted(maps.Keys(scans)) {
		scan := scans[p]
		state := client.PartitionWaiting
		switch {
		case scan.Done:
			state = client.PartitionDone
		case scan.GivenUp:
			state = client.PartitionGivenUp
		case scan.Dead:
			state = client.PartitionDead
		case scan.Joined:
			state = client.PartitionRunning
		}
		all = append(all, client.PartitionProgress{Partition: p, State: state, Delivered: scan.Delivered, Skipped: scan.Skipped})
	}
	return all
}
