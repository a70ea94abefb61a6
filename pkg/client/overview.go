package client

import "context"

// Overview is what all processes on a store do, and what needs an operator. A part that its source did not return in time is nil, and a
// warning names it. The server may answer with an overview that is a second old.
type Overview struct {
	// Lanes are the queues of messages on their way: those of the router first, then by the size of the audience.
	Lanes        []LaneLoad       `json:"lanes,omitempty"`
	Processes    []ProcessLoad    `json:"processes,omitempty"`
	DeadLetters  *DeadLetterCount `json:"dead_letters,omitempty"`
	Rehydrations *RehydrationLoad `json:"rehydrations,omitempty"`
	Clocks       []ClockReading   `json:"clocks,omitempty"`
	Retention    *RetentionStatus `json:"retention,omitempty"`
	Totals       *Totals          `json:"totals,omitempty"`
	Warnings     []Warning        `json:"warnings,omitempty"`
}

// LaneRouting is the lane of published messages that no router has handled yet. The other lanes are those of package event.
const LaneRouting = "routing"

// LaneLoad is a queue, and how fast it empties.
type LaneLoad struct {
	// Lane is routing, direct, medium or bulk. Messages of the lane direct are delivered by routers, so they wait in routing.
	Lane string `json:"lane"`
	// Waiting counts the events in the queue: messages in routing, tasks in medium and bulk. It includes those that a process works on.
	Waiting int64 `json:"waiting"`
	// OldestSeconds is for how long the oldest of them has waited; 0 if there is none.
	OldestSeconds float64 `json:"oldest_seconds,omitempty"`
	// Rate is how many events have left the queue in a second, between the last two reports of each process; nil while no process has
	// reported twice. About is true if there is one. AtLeast is true for routing, whose rate counts the messages of the lane direct only.
	Rate    *float64 `json:"rate,omitempty"`
	About   bool     `json:"about,omitempty"`
	AtLeast bool     `json:"at_least,omitempty"`
	// SecondsToEmpty is Waiting divided by Rate; nil if nothing waits or leaves.
	SecondsToEmpty *float64 `json:"seconds_to_empty,omitempty"`
}

// ProcessLoad is a process that has reported itself within a day, and its work.
type ProcessLoad struct {
	Name string `json:"name"`
	// Role is the roles of the process, joined by "+".
	Role    string `json:"role"`
	Host    string `json:"host,omitempty"`
	Version string `json:"version,omitempty"`
	// Address is where the process listens for requests.
	Address string `json:"address,omitempty"`
	// State is what the process says of itself.
	State string `json:"state,omitempty"`
	// Started is when the process started, and Seen when it last reported itself.
	Started Time `json:"started,omitzero"`
	Seen    Time `json:"seen"`
	// Alive reports whether the process has reported itself in the last 30 s.
	Alive bool `json:"alive"`
	// AcceptedRate and DeliveredRate are the accepted messages and the delivered copies in a second, between the last two reports of the
	// process; nil until it has reported twice. About is true if they are not.
	AcceptedRate  *float64 `json:"accepted_rate,omitempty"`
	DeliveredRate *float64 `json:"delivered_rate,omitempty"`
	About         bool     `json:"about,omitempty"`
}

// DeadLetterCount counts the dead letters.
type DeadLetterCount struct {
	Total int64 `json:"total"`
	// ByStage counts them by what they were filed for: published, login, medium, bulk, damaged or unknown.
	ByStage map[string]int64 `json:"by_stage,omitempty"`
	// ByReason counts the newest 1,000 by reason. AtLeast is true if there are more letters.
	ByReason map[string]int64 `json:"by_reason,omitempty"`
	AtLeast  bool             `json:"at_least,omitempty"`
}

// RehydrationLoad counts the rehydrations of all processes that wait or run.
type RehydrationLoad struct {
	Waiting int64 `json:"waiting"`
	// Running are those that the answering process carries out. Those of other processes count as waiting, so About is true if there are any.
	Running int64 `json:"running"`
	// OldestSeconds is for how long the oldest has been due; 0 if there is none.
	OldestSeconds float64 `json:"oldest_seconds,omitempty"`
	About         bool    `json:"about,omitempty"`
	// AtLeast is true if there are more than the server counts.
	AtLeast bool `json:"at_least,omitempty"`
}

// ClockReading is the difference between the clock of the answering process's host and another.
type ClockReading struct {
	// Server is store or bus.
	Server string `json:"server"`
	// AheadSeconds is how far the host's clock is ahead; negative if it is behind. It is wrong by at most WithinSeconds.
	AheadSeconds  float64 `json:"ahead_seconds"`
	WithinSeconds float64 `json:"within_seconds"`
	About         bool    `json:"about,omitempty"`
	// Off is true if the difference is more than a quarter of clock_tolerance. Held is true if it is more than all of it: then nothing expires by
	// age, until the clocks have agreed for retention.hold.
	Off  bool `json:"off,omitempty"`
	Held bool `json:"held,omitempty"`
}

// Totals count everything that processes have done since the store was created. A process that ends at once may take up to 10 s of its
// work out of them, so About is true.
type Totals struct {
	Accepted       int64 `json:"accepted"`
	Delivered      int64 `json:"delivered"`
	DeliveredBytes int64 `json:"delivered_bytes"`
	// Skipped and Rebuilt are those of Dormancy.
	Skipped Skipped `json:"skipped"`
	Rebuilt Rebuilt `json:"rebuilt"`
	About   bool    `json:"about,omitempty"`
}

// Warning is what an operator should do something about.
type Warning struct {
	// Kind is one of the constants below. A later release may add some.
	Kind string `json:"kind"`
	// Text says what is wrong and what to do.
	Text string `json:"text"`
}

// The kinds of warnings.
const (
	WarnNoPublisher    = "no-publisher"
	WarnNoFanoutWorker = "no-fanout-worker"
	WarnNoRehydrator   = "no-rehydrator"
	WarnUnavailable    = "unavailable" // a part of the overview is missing
	WarnDeadLetters    = "dead-letters"
	WarnClock          = "clock"
	WarnVersions       = "versions"
	WarnDisk           = "disk"
)

// Dormancy is what dormancy saves: copies that were not made for users who are away, less those that were made when they came back.
type Dormancy struct {
	// Users is nil until a round through all users has ended.
	Users   *DormancyUsers `json:"users,omitempty"`
	Skipped Skipped        `json:"skipped"`
	Rebuilt Rebuilt        `json:"rebuilt"`
	// If says what would have been with other values of dormant_after, in their order.
	If []DormancyIf `json:"if,omitempty"`
}

// DormancyUsers counts the users that were ever seen, when the last round through all users passed them.
type DormancyUsers struct {
	Active  int64 `json:"active"`
	Dormant int64 `json:"dormant"`
	About   bool  `json:"about,omitempty"`
}

// Skipped counts copies that were not made, by the reason: the recipient was dormant, was never seen, or had blocked the author.
type Skipped struct {
	Dormant   int64 `json:"dormant"`
	NeverSeen int64 `json:"never_seen"`
	Blocked   int64 `json:"blocked"`
	// Bytes is the size of the copies that were not made for dormant and never seen users.
	Bytes int64 `json:"bytes"`
	About bool  `json:"about,omitempty"`
}

// Rebuilt counts the returns of dormant users, and the copies that were made because of them.
type Rebuilt struct {
	Users    int64 `json:"users"`
	Messages int64 `json:"messages"`
	About    bool  `json:"about,omitempty"`
}

// DormancyIf is what would have been with another dormant_after.
type DormancyIf struct {
	// DormantAfter is a value of the setting such as 6h or 30d, or never.
	DormantAfter string `json:"dormant_after"`
	// Copies would have been made when messages were sent, of all that were delivered or skipped for dormancy.
	Copies int64 `json:"copies"`
	// Rebuilds is how many returns would have been those of dormant users.
	Rebuilds int64 `json:"rebuilds"`
	About    bool  `json:"about,omitempty"`
}

// Overview returns what all processes do, and what needs an operator. The server must have the role rehydrator.
func (c *Client) Overview(ctx context.Context) (Overview, error) {
	return get[Overview](ctx, c, at("/v1/admin/overview"), nil)
}

// Dormancy returns what dormancy saves. The server must have the role rehydrator.
func (c *Client) Dormancy(ctx context.Context) (Dormancy, error) {
	return get[Dormancy](ctx, c, at("/v1/admin/dormancy"), nil)
}
