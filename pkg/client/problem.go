package client

import (
	"fmt"
	"net/http"
	"time"
)

// ProblemType is the stable name of a kind of problem.
type ProblemType string

const (
	// ProblemMalformed is a request that cannot be read: 400.
	ProblemMalformed ProblemType = "urn:fanmail:problem:malformed"
	// ProblemUnauthorized is a request without a token, or with an unknown or expired token: 401.
	ProblemUnauthorized ProblemType = "urn:fanmail:problem:unauthorized"
	// ProblemForbidden is a request that the token does not permit: 403.
	ProblemForbidden ProblemType = "urn:fanmail:problem:forbidden"
	// ProblemBlocked is a follow between two users one of whom blocks the other: 403.
	ProblemBlocked ProblemType = "urn:fanmail:problem:blocked"
	// ProblemRateLimited is a request beyond the limit of its sender or address. Nothing was done: 429.
	ProblemRateLimited ProblemType = "urn:fanmail:problem:rate-limited"
	// ProblemNotFound is a path, message, user or entry that does not exist: 404.
	ProblemNotFound ProblemType = "urn:fanmail:problem:not-found"
	// ProblemMethod is a method that does not exist for the path: 405.
	ProblemMethod ProblemType = "urn:fanmail:problem:method-not-allowed"
	// ProblemBackwards is a time before the recorded time: 409.
	ProblemBackwards ProblemType = "urn:fanmail:problem:backwards"
	// ProblemConflict is a request that the present state does not allow, such as redriving a dead letter whose subject has no
	// stream: 409.
	ProblemConflict ProblemType = "urn:fanmail:problem:conflict"
	// ProblemGivenUp is the redrive of a dead letter whose task was given up. The letter can only be dropped: 409.
	ProblemGivenUp ProblemType = "urn:fanmail:problem:given-up"
	// ProblemFollowLimit is a user who has as many follows, subscriptions and blocks as is allowed, or has ended one as often: 409.
	ProblemFollowLimit ProblemType = "urn:fanmail:problem:follow-limit"
	// ProblemTooManyMarks says that too much of an inbox is marked message by message: 409.
	ProblemTooManyMarks ProblemType = "urn:fanmail:problem:too-many-marks"
	// ProblemUnconfirmed is a change that the caller has to confirm, because it removes or hides something, or may do so: 409.
	ProblemUnconfirmed ProblemType = "urn:fanmail:problem:unconfirmed"
	// ProblemTooLarge is a body, a line or a batch over its limit: 413.
	ProblemTooLarge ProblemType = "urn:fanmail:problem:too-large"
	// ProblemMediaType is a body that is not JSON: 415.
	ProblemMediaType ProblemType = "urn:fanmail:problem:unsupported-media-type"
	// ProblemInvalid is a readable value that is not allowed: 422.
	ProblemInvalid ProblemType = "urn:fanmail:problem:invalid"
	// ProblemKeyReused is an idempotency key that was used for another message: 422.
	ProblemKeyReused ProblemType = "urn:fanmail:problem:key-reused"
	// ProblemInternal is a failure of the server: 500.
	ProblemInternal ProblemType = "urn:fanmail:problem:internal"
	// ProblemDamaged is a request for a stored record that is damaged or lost. An operator has to restore or remove the record: 500.
	ProblemDamaged ProblemType = "urn:fanmail:problem:damaged"
	// ProblemBusy is a message that the server refused because it takes no messages at the moment. Nothing was published: 503.
	ProblemBusy ProblemType = "urn:fanmail:problem:busy"
	// ProblemClockAhead is a message that the server refused because its clock is ahead of the store's. Nothing was published: 503.
	ProblemClockAhead ProblemType = "urn:fanmail:problem:clock-ahead"
	// ProblemUnavailable is a request that the server could not finish. A part of it may be done: 503.
	ProblemUnavailable ProblemType = "urn:fanmail:problem:unavailable"
)

// ReasonName is the stable name of a reason why a server is not ready, or refuses some requests.
type ReasonName string

const (
	// ReasonStarting means that the server waits for a dependency and serves nothing yet.
	ReasonStarting ReasonName = "starting"
	// ReasonStopping means that the server is stopping. It still answers requests for a while.
	ReasonStopping ReasonName = "stopping"
	// ReasonStore means that the server cannot reach the store.
	ReasonStore ReasonName = "store"
	// ReasonBus means that the server cannot reach the bus. A server that only fans messages out is then not ready. Every other server
	// is ready and limited: it serves inboxes, and what it accepts is delivered when the bus answers.
	ReasonBus ReasonName = "bus"
	// ReasonDisk means that the disk is nearly full. The server refuses messages and edges, and serves everything else.
	ReasonDisk ReasonName = "disk"
	// ReasonWorker means that no fan-out worker runs anywhere. A publisher still accepts messages, which wait for one.
	ReasonWorker ReasonName = "worker"
)

// Reason is a reason why a server is not ready, or refuses some requests.
type Reason struct {
	Name ReasonName `json:"name"`
	// Detail is the reason in words.
	Detail string `json:"detail"`
}

// Problem is a problem document (RFC 9457), the server's answer to a request that it refused or could not finish. It is an error.
//
//nolint:errname // RFC 9457 calls it a problem
type Problem struct {
	Type   ProblemType `json:"type"`
	Title  string      `json:"title"`
	Status int         `json:"status"`
	// Detail says what is wrong with this request, and what the caller can do.
	Detail string `json:"detail,omitempty"`
	// Field names the wrong part of the request. It is empty if no single part is wrong.
	Field string `json:"field,omitempty"`
	// Line is a line of a batch, counted from 1: the wrong line, or the first line that was not handled. It is 0 if the problem
	// concerns no line.
	Line int `json:"line,omitempty"`
	// Reasons are the reasons why the server is not ready. Only /readyz sets them.
	Reasons []Reason `json:"reasons,omitempty"`
	// RetryAfter is the pause that the server asks for before the next try; 0 if it asks for none.
	RetryAfter time.Duration `json:"-"`
}

// Error returns the detail and the status.
func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	return fmt.Sprintf("%s (%d %s)", text, p.Status, http.StatusText(p.Status))
}
