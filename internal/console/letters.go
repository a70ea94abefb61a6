package console

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/event"
)

const (
	// mostLetters is how many dead letters are counted and settled at a time.
	mostLetters = 5000
	// settleWithin is how long a visitor waits for many to be settled.
	settleWithin = 30 * time.Second
)

// selection says which dead letters are meant. Empty fields allow all.
type selection struct {
	ID, UpTo      uint64
	Stage, Reason string
}

func selectionOf(r *http.Request) (s selection) {
	s.ID, _ = strconv.ParseUint(r.FormValue("id"), 10, 64)
	s.UpTo, _ = strconv.ParseUint(r.FormValue("upto"), 10, 64)
	s.Stage, s.Reason = r.FormValue("stage"), r.FormValue("reason")
	return s
}

func (s selection) has(l client.DeadLetter) bool {
	return (s.ID == 0 || s.ID == l.ID) && (s.UpTo == 0 || l.ID <= s.UpTo) && (s.Stage == "" || s.Stage == stageOf(l)) && (s.Reason == "" || s.Reason == l.Reason)
}

// Query returns the selection as a query.
func (s selection) Query() string {
	return url.Values{"stage": {s.Stage}, "reason": {s.Reason}}.Encode()
}

// stageOf returns what a letter was filed for, as overviews name it.
func stageOf(l client.DeadLetter) string {
	work := strings.TrimPrefix(l.Subject, "fanmail.v1.")
	lane, isTask := strings.CutPrefix(work, "fanout.")
	switch {
	case l.Reason == event.ReasonDamaged:
		return event.ReasonDamaged
	case isTask:
		work, _, _ = strings.Cut(lane, ".")
	}
	return work
}

// lettersOf are the dead letters that a selection has.
type lettersOf struct {
	selection
	// Letters are the first of them, Count and Last how many there are and the greatest id.
	Letters []client.DeadLetter
	Count   int
	Last    uint64
	// Kinds counts all letters by stage and reason.
	Kinds []kind
	// AtLeast is true if there are more letters than were counted.
	AtLeast bool
}

// kind is a stage and a reason of letters.
type kind struct {
	selection
	Count int
}

// find reads the dead letters.
func (s selection) find(ctx context.Context, c *client.Client) (found lettersOf, err error) {
	found.selection = s
	kinds, seen := make(map[selection]int), 0
	for letter, err := range c.DeadLetters(ctx) {
		if err != nil {
			return found, err
		}
		if seen++; seen > mostLetters {
			found.AtLeast = true
			break
		}
		kinds[selection{Stage: stageOf(letter), Reason: letter.Reason}]++
		if !s.has(letter) {
			continue
		}
		found.Count++
		found.Last = letter.ID
		if len(found.Letters) < mostRows {
			found.Letters = append(found.Letters, letter)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(kinds), func(a, b selection) int { return strings.Compare(a.Stage+" "+a.Reason, b.Stage+" "+b.Reason) }) {
		found.Kinds = append(found.Kinds, kind{k, kinds[k]})
	}
	return found, nil
}

// lettersPage lists dead letters.
func lettersPage(r *http.Request) page {
	s := selectionOf(r)
	return page{title: "Dead letters", panels: []panel{{name: "letters", heading: "Dead letters", load: func(ctx context.Context, c *client.Client) (any, error) {
		return s.find(ctx, c)
	}}}}
}

// confirmPage says how many letters an action would change, and has the button that does it.
func confirmPage(r *http.Request) page {
	s, do := selectionOf(r), r.FormValue("do")
	return page{title: "Dead letters", panels: []panel{{name: "confirm", heading: "Dead letters", load: func(ctx context.Context, c *client.Client) (any, error) {
		if actions[do] == nil {
			return nil, errUnknownAction
		}
		found, err := s.find(ctx, c)
		return map[string]any{"Do": do, "Found": found}, err
	}}}}
}

// actions are what can be done with a dead letter.
var actions = map[string]func(*client.Client, context.Context, uint64) error{"redrive": (*client.Client).Redrive, "drop": (*client.Client).Drop}

var errUnknownAction = errors.New("there is no such action: redrive or drop dead letters")

// settled is what became of the letters of an action.
type settled struct {
	Do      string
	Done    int
	Refused []string
	Trouble string
}

// settle redrives or drops dead letters: one, or all that a confirmation has counted. The API refuses it to tokens that may only look.
func (s *server) settle(w http.ResponseWriter, r *http.Request) {
	token := tokenOf(r)
	if s.opts.Login && token == "" {
		toLogin(w, r)
		return
	}
	do, chosen := r.PostFormValue("do"), selectionOf(r)
	result, status := settled{Do: do}, http.StatusOK
	act := actions[do]
	ctx, cancel := context.WithTimeout(r.Context(), settleWithin)
	defer cancel()
	c := s.client(r, token)
	err := errUnknownAction
	switch {
	case act == nil || chosen.ID == 0 && chosen.UpTo == 0: // stays unknown
	case chosen.ID != 0:
		err = act(c, ctx, chosen.ID)
	default:
		err = chosen.each(ctx, c, &result, act)
	}
	if err == nil && chosen.ID != 0 {
		result.Done = 1
	}
	if err != nil {
		result.Trouble, status = err.Error(), statusOf(err)
	}
	if status == http.StatusUnauthorized && s.opts.Login {
		toLogin(w, r)
		return
	}
	s.write(w, r, status, page{title: "Dead letters"}, []shown{{Name: "settled", Heading: "Dead letters", Body: render("settled", result)}})
}

// each does an action with every letter of a selection. It lists them first: one that fails again becomes a new letter. The refusal of one does not
// stop the others.
func (s selection) each(ctx context.Context, c *client.Client, result *settled, act func(*client.Client, context.Context, uint64) error) error {
	var ids []uint64
	for letter, err := range c.DeadLetters(ctx) {
		if err != nil {
			return err
		}
		if letter.ID > s.UpTo || len(ids) == mostLetters {
			break
		}
		if s.has(letter) {
			ids = append(ids, letter.ID)
		}
	}
	for _, id := range ids {
		err := act(c, ctx, id)
		problem, ok := errors.AsType[*client.Problem](err)
		switch {
		case err == nil:
			result.Done++
		case ok && (problem.Status == http.StatusConflict || problem.Status == http.StatusNotFound):
			result.Refused = append(result.Refused, fmt.Sprintf("%d: %s", id, problem.Detail))
		default:
			return err
		}
	}
	return nil
}
