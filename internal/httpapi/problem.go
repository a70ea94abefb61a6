package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
	"syscall"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/deadletter"
	"github.com/fanmail/fanmail/internal/publish"
	"github.com/fanmail/fanmail/internal/rehydrate"
	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/internal/topics"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// kind is the status and the title of a type of problem.
type kind struct {
	status int
	title  string
}

var kinds = map[client.ProblemType]kind{
	client.ProblemMalformed:    {http.StatusBadRequest, "The request cannot be read"},
	client.ProblemUnauthorized: {http.StatusUnauthorized, "The request is not authenticated"},
	client.ProblemForbidden:    {http.StatusForbidden, "The token does not allow this"},
	client.ProblemBlocked:      {http.StatusForbidden, "One user blocks the other"},
	client.ProblemRateLimited:  {http.StatusTooManyRequests, "The rate limit is exceeded"},
	client.ProblemNotFound:     {http.StatusNotFound, "Not found"},
	client.ProblemMethod:       {http.StatusMethodNotAllowed, "The path does not have this method"},
	client.ProblemConflict:     {http.StatusConflict, "The state does not allow this"},
	client.ProblemBackwards:    {http.StatusConflict, "Time does not go backwards"},
	client.ProblemGivenUp:      {http.StatusConflict, "The work was given up"},
	client.ProblemFollowLimit:  {http.StatusConflict, "A limit of follows, subscriptions or blocks is reached"},
	client.ProblemTooManyMarks: {http.StatusConflict, "Too many messages are marked one by one"},
	client.ProblemUnconfirmed:  {http.StatusConflict, "The change has to be confirmed"},
	client.ProblemTooLarge:     {http.StatusRequestEntityTooLarge, "The request is too large"},
	client.ProblemMediaType:    {http.StatusUnsupportedMediaType, "The body is not declared to be JSON"},
	client.ProblemInvalid:      {http.StatusUnprocessableEntity, "A value is not allowed"},
	client.ProblemKeyReused:    {http.StatusUnprocessableEntity, "The idempotency key was used for another message"},
	client.ProblemInternal:     {http.StatusInternalServerError, "The server failed"},
	client.ProblemDamaged:      {http.StatusInternalServerError, "A stored record is damaged"},
	client.ProblemBusy:         {http.StatusServiceUnavailable, "The server is busy"},
	client.ProblemClockAhead:   {http.StatusServiceUnavailable, "The server's clock is ahead"},
	client.ProblemUnavailable:  {http.StatusServiceUnavailable, "The server cannot do this at the moment"},
}

const internalDetail = "the server failed and has logged the cause: try again later, and report the X-Request-Id of this answer if it happens again"

const damagedDetail = "a stored record that this answer needs is damaged or lost, and trying again does not help: report the X-Request-Id of this answer " +
	"to the operator, who can restore or remove the record"

const unfinishedDetail = "the user has returned, and the server is still rebuilding the inbox: try again in a moment"

func newProblem(t client.ProblemType, field, detail string) *client.Problem {
	k := kinds[t]
	p := &client.Problem{Type: t, Title: k.title, Status: k.status, Detail: detail, Field: field}
	if k.status == http.StatusServiceUnavailable || k.status == http.StatusTooManyRequests {
		p.RetryAfter = publish.RetryAfter
	}
	return p
}

// refuse returns a problem as an error.
func refuse(t client.ProblemType, field, format string, args ...any) error {
	return newProblem(t, field, fmt.Sprintf(format, args...))
}

// problemOf returns the problem document for an error. For every error it decides what the client may know.
func problemOf(err error) *client.Problem {
	if p, ok := errors.AsType[*client.Problem](err); ok {
		return p
	}
	if invalid, ok := errors.AsType[*message.InvalidError](err); ok {
		return newProblem(client.ProblemInvalid, invalid.Field, invalid.Error())
	}
	if full, ok := errors.AsType[*follow.FullError](err); ok {
		field := "followee"
		if full.Pair.Followee.IsTopic() {
			field = "topic"
		}
		return newProblem(client.ProblemFollowLimit, field, full.Error())
	}
	if blocked, ok := errors.AsType[*follow.BlockedError](err); ok {
		return newProblem(client.ProblemBlocked, "followee", blocked.Error())
	}
	if used, ok := errors.AsType[*topics.InUseError](err); ok {
		return newProblem(client.ProblemConflict, "topic", used.Error())
	}
	if p := settingsProblem(err); p != nil {
		return p
	}
	if p := identityProblem(err); p != nil {
		return p
	}
	switch {
	case errors.Is(err, message.ErrKeyReused):
		return newProblem(client.ProblemKeyReused, client.IdempotencyKeyHeader,
			"this sender has used the idempotency key for another message: give each message a key of its own")
	case errors.Is(err, follow.ErrSelf):
		return newProblem(client.ProblemInvalid, "followee", "a user cannot follow or block themselves: name another user")
	case errors.Is(err, flag.ErrTooMany):
		return newProblem(client.ProblemTooManyMarks, "", fmt.Sprintf("the inbox would have marks of single messages in more than %d buckets, or of more than %d "+
			"messages in gaps: mark all messages up to one as read instead, or delete what was archived", flag.MaxBuckets, flag.MaxMessages))
	case errors.Is(err, bucket.ErrCursor):
		return newProblem(client.ProblemInvalid, "before",
			"before is not a cursor of this inbox: take the next of a page of the same inbox, as it is")
	case errors.Is(err, message.ErrNotFound):
		return newProblem(client.ProblemNotFound, "id", "there is no message with this id: check the id")
	case errors.Is(err, topics.ErrNotFound):
		return newProblem(client.ProblemNotFound, "topic", "there is no such topic: check its spelling")
	case errors.Is(err, bucket.ErrNotFound):
		return newProblem(client.ProblemNotFound, "id", "there is no message with this id in this inbox: check the id and the user")
	case errors.Is(err, deadletter.ErrNotFound):
		return newProblem(client.ProblemNotFound, "id", "there is no dead letter with this id: it may have been redriven or dropped")
	case errors.Is(err, deadletter.ErrNoConsumer):
		return newProblem(client.ProblemConflict, "id", "no worker reads the subject of this dead letter: it can only be dropped")
	case errors.Is(err, deadletter.ErrUnreadable):
		return newProblem(client.ProblemConflict, "id", "no worker can read the work of this dead letter: upgrade first if its reason is newer_version, or drop it")
	case errors.Is(err, deadletter.ErrGivenUp):
		return newProblem(client.ProblemGivenUp, "id", "the task of this dead letter was given up, because another letter about it was dropped: drop this one, too")
	case errors.Is(err, deadletter.ErrDamaged):
		return newProblem(client.ProblemConflict, "id", "records of the user of this dead letter are still damaged: restore or remove them, then redrive it again")
	case errors.Is(err, message.ErrCorrupt):
		return newProblem(client.ProblemDamaged, "", damagedDetail)
	case errors.Is(err, userstate.ErrNotFound):
		return newProblem(client.ProblemNotFound, "user", "this user was never seen: check the id, or set when they were last seen first")
	case errors.Is(err, userstate.ErrBackwards):
		return newProblem(client.ProblemBackwards, "last_viewed", err.Error()+": give that time or a later one")
	case errors.Is(err, publish.ErrBehind):
		return newProblem(client.ProblemBusy, "",
			"the server's clock is behind the store's, and the server did not publish this message: try again after Retry-After, and tell the operator")
	case errors.Is(err, publish.ErrBusy), errors.Is(err, publish.ErrLate):
		return newProblem(client.ProblemBusy, "", "the server accepts no messages at the moment, and did not publish this one: try again after Retry-After")
	case errors.Is(err, publish.ErrAhead):
		return newProblem(client.ProblemClockAhead, "",
			"the server's clock is ahead of the store's, and the server did not publish this message: try again after Retry-After, and tell the operator")
	case errors.Is(err, rehydrate.ErrUnfinished):
		return newProblem(client.ProblemUnavailable, "", unfinishedDetail)
	case temporary(err):
		return newProblem(client.ProblemUnavailable, "", "this could not be finished at the moment: try again after Retry-After")
	default:
		return newProblem(client.ProblemInternal, "", internalDetail)
	}
}

// settingsProblem returns the problem document for an error of package settings, or nil.
func settingsProblem(err error) *client.Problem {
	if unconfirmed, ok := errors.AsType[*settings.UnconfirmedError](err); ok {
		return newProblem(client.ProblemUnconfirmed, "confirm", unconfirmed.Error())
	}
	if misfit, ok := errors.AsType[*settings.MisfitError](err); ok {
		return newProblem(client.ProblemConflict, "value", misfit.Error())
	}
	if declared, ok := errors.AsType[*settings.TypeError](err); ok {
		return newProblem(client.ProblemConflict, "type", declared.Error())
	}
	if errors.Is(err, settings.ErrNotDeclared) {
		return newProblem(client.ProblemNotFound, "name", "there is no such attribute: check its spelling, or declare it")
	}
	return nil
}

// identityProblem returns the problem document for an error about an identity, or nil. It does not say whose an identity is.
func identityProblem(err error) *client.Problem {
	switch {
	case errors.Is(err, identity.ErrNotFound):
		return newProblem(client.ProblemNotFound, "value", "no user has this identity: check its kind and value, and whether the token lists the kind")
	case errors.Is(err, identity.ErrTaken):
		return newProblem(client.ProblemConflict, "value", "another user has this identity: delete it first")
	case errors.Is(err, identity.ErrFull):
		return newProblem(client.ProblemInvalid, "user", identity.ErrFull.Error())
	}
	return nil
}

// temporary reports whether a repeated request may succeed.
func temporary(err error) bool {
	for _, cause := range []error{
		message.ErrUnavailable, message.ErrKeyChanged, bucket.ErrContended, topics.ErrContended, deadletter.ErrBus, syscall.ENOSPC, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// problem returns the problem document for an error. It logs the error if the document does not contain it.
func (s *server) problem(w *response, err error) *client.Problem {
	p := problemOf(err)
	s.panics.Record(err, func(line *zerolog.Event) *zerolog.Event { return s.line(w, line) }) // of a goroutine of the request
	switch {
	case w.hungUp(p, err): // the line about the request has the error
	case p.Type == client.ProblemInternal, p.Type == client.ProblemDamaged:
		s.line(w, s.opts.Logger.Error()).Err(err).Msg("a request failed")
	case len(p.Reasons) > 0: // noteReadiness logs it
	case p.Type == client.ProblemUnavailable && !errors.Is(err, context.Canceled) && !errors.Is(err, rehydrate.ErrUnfinished):
		s.line(w, s.opts.Logger.Warn()).Err(err).Msg("a request could not be finished")
	}
	return p
}

// errHungUp means that a request cannot be read, or its answer not be written, because the client is gone or does not read.
var errHungUp = errors.New("the client is gone")

// hungUp reports whether a request failed because its client is gone, and records that. Then nothing is wrong with the server: the error is
// no warning, and the request does not count as failed.
func (w *response) hungUp(p *client.Problem, err error) bool {
	canceled := p.Type == client.ProblemUnavailable && errors.Is(err, context.Canceled) && w.gone()
	if !canceled && !errors.Is(err, errHungUp) {
		return false
	}
	w.left = cmp.Or(w.left, err)
	return true
}

// brokenOff returns the problem for a body that ends too early because of err, and that the client can send again.
func (w *response) brokenOff(err error, p *client.Problem) error {
	if network, ok := errors.AsType[net.Error](err); ok && network.Timeout() || !w.gone() {
		return p
	}
	return fmt.Errorf("%w: %w", errHungUp, p)
}

// fail answers with the problem document for an error.
func (s *server) fail(w *response, err error) { writeProblem(w, s.problem(w, err)) }

func writeProblem(w *response, p *client.Problem) {
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(p.RetryAfter.Seconds()))))
	}
	_ = writeJSON(w, p.Status, client.ContentProblem, p) // strings and numbers can always be written
}
