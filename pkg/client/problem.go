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
	// ProblemUnauthorized is a request without a token, or with one that is not known or not valid any more: 401.
	ProblemUnauthorized ProblemType = "urn:fanmail:problem:unauthorized"
	// ProblemForbidden is something that the token does not allow: 403.
	ProblemForbidden ProblemType = "urn:fanmail:problem:forbidden"
	// ProblemRateLimited is more than is accepted of one sender or one address; nothing was done: 429.
	ProblemRateLimited ProblemType = "urn:fanmail:problem:rate-limited"
	// ProblemNotFound is a path, message, user or entry that does not exist: 404.
	ProblemNotFound ProblemType = "urn:fanmail:problem:not-found"
	// ProblemMethod is a method that the path does not have: 405.
	ProblemMethod ProblemType = "urn:fanmail:problem:method-not-allowed"
	// ProblemBackwards is a time before the one that is recorded: 409.
	ProblemBackwards ProblemType = "urn:fanmail:problem:backwards"
	// ProblemConflict is something that cannot be done to what is there as it is, such as a dead letter that nobody would take: 409.
	ProblemConflict ProblemType = "urn:fanmail:problem:conflict"
	// ProblemUnconfirmed is a change that has to be confirmed, because it removes or hides something, or may: 409.
	ProblemUnconfirmed ProblemType = "urn:fanmail:problem:unconfirmed"
	// ProblemUpgrade is something that needs a higher format level than the database has: 409.
	ProblemUpgrade ProblemType = "urn:fanmail:problem:upgrade-required"
	// ProblemTooLarge is a body, a line or a batch over its limit: 413.
	ProblemTooLarge ProblemType = "urn:fanmail:problem:too-large"
	// ProblemMediaType is a body that is not JSON: 415.
	ProblemMediaType ProblemType = "urn:fanmail:problem:unsupported-media-type"
	// ProblemInvalid is a value that can be read and is not allowed: 422.
	ProblemInvalid ProblemType = "urn:fanmail:problem:invalid"
	// ProblemKeyReused is an idempotency key that was used for another message: 422.
	ProblemKeyReused ProblemType = "urn:fanmail:problem:key-reused"
	// ProblemInternal is a failure of the server: 500.
	ProblemInternal ProblemType = "urn:fanmail:problem:internal"
	// ProblemBusy is a server that takes no messages at the moment, and has not taken this one: 503.
	ProblemBusy ProblemType = "urn:fanmail:problem:busy"
	// ProblemClockAhead is a server whose clock is ahead of the store's, and which has published nothing: 503.
	ProblemClockAhead ProblemType = "urn:fanmail:problem:clock-ahead"
	// ProblemUnavailable is a server that could not finish at the moment, and may have done part of it: 503.
	ProblemUnavailable ProblemType = "urn:fanmail:problem:unavailable"
)

// ReasonName is the stable name of something that keeps a server from serving.
type ReasonName string

const (
	// ReasonStarting is that the server waits for something before it can serve anything.
	ReasonStarting ReasonName = "starting"
	// ReasonStopping means that the server is stopping. It still answers requests for a while.
	ReasonStopping ReasonName = "stopping"
	// ReasonStore is that the store cannot be reached.
	ReasonStore ReasonName = "store"
	// ReasonBus is that the bus cannot be reached.
	ReasonBus ReasonName = "bus"
	// ReasonDisk is that the disk is nearly full. It keeps a server from taking messages and edges, and from nothing else.
	ReasonDisk ReasonName = "disk"
)

// Reason is why a server is not ready, or does not do everything.
type Reason struct {
	Name ReasonName `json:"name"`
	// Detail says it in words.
	Detail string `json:"detail"`
}

// Problem is a problem document (RFC 9457): what the server answers when it does not do what was asked.
//
//nolint:errname // RFC 9457 calls it a problem
type Problem struct {
	Type   ProblemType `json:"type"`
	Title  string      `json:"title"`
	Status int         `json:"status"`
	// Detail says what is wrong with this request, and what to do about it.
	Detail string `json:"detail,omitempty"`
	// Field names the part of the request that is wrong, where one is.
	Field string `json:"field,omitempty"`
	// Line is the line of a batch that is wrong, or from which on nothing was done; 0 if that says nothing.
	Line int `json:"line,omitempty"`
	// Reasons are why the server is not ready, where that was asked.
	Reasons []Reason `json:"reasons,omitempty"`
	// RetryAfter is how long the server asks to wait before the request is repeated; 0 if repeating does not help.
	RetryAfter time.Duration `json:"-"`
}

// Error returns the detail, and the status.
func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	return fmt.Sprintf("%s (%d %s)", text, p.Status, http.StatusText(p.Status))
}
