package message

// State is the progress of a message's fan-out.
type State string

const (
	// StatePending is a message whose fan-out is not planned yet.
	StatePending State = "pending"
	// StateRunning is a message whose fan-out is running.
	StateRunning State = "running"
	// StateDone is a message whose fan-out is complete: every active recipient has it, unless an operator has given up a part.
	StateDone State = "done"
	// StateDead is what lists call a running message of which a part is a dead letter.
	StateDead State = "dead"
)

// WaitingFor is what a message waits for.
type WaitingFor string

const (
	// WaitingForRouter is a message that no router has taken.
	WaitingForRouter WaitingFor = "router"
	// WaitingForWorker is a message whose tasks no worker has begun, or any message that does not move while no fan-out worker runs.
	WaitingForWorker WaitingFor = "worker"
	// WaitingForLostWorker is a message that has stopped: its worker is gone and another one gets its task, or the task is gone and it is routed again.
	WaitingForLostWorker WaitingFor = "lost-worker"
	// WaitingForStore is a message some of whose recipients cannot be reached, because a part of the database does not answer.
	WaitingForStore WaitingFor = "store"
	// WaitingForRoom is a message to many whose deliveries wait because the disk of the embedded store is nearly full.
	WaitingForRoom WaitingFor = "room"
	// WaitingForDeadLetter is a message whose rest is a dead letter: an operator redrives or drops it.
	WaitingForDeadLetter WaitingFor = "dead-letter"
)

// Ending is what the canonical store says about the end of a message's fan-out.
type Ending struct {
	// Ref names the message and its author. It is zero if the message is not stored.
	Ref Ref
	// Concluded reports that the fan-out has ended. Until then, the counts are zero. Afterwards they never change.
	Concluded bool
	// Lane is the lane in which the message was fanned out.
	Lane string
	// Delivered counts recipients whose inbox got the message, and Skipped those whom fan-out left to rehydration.
	Delivered, Skipped int64
	// GivenUp counts the partitions in which an operator gave the fan-out up. The message may be missing from inboxes there.
	GivenUp int64
	// Void and Blocked are those of the message, also before the fan-out has ended. Conclude ignores them.
	Void    bool
	Blocked int
	// Closed is the number of the round through all users during which the fan-out was known to have ended.
	Closed int64
	// Err wraps ErrCorrupt if the record is damaged. Then the rest is zero.
	Err error
}

// Over reports whether there is nothing left to fan out: the message is concluded, or it is not stored any more.
func (e Ending) Over() bool { return e.Err == nil && (e.Concluded || e.Ref == Ref{}) }
