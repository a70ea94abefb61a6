package mongostore

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// latest returns the time, by the server's clock, from which the server refuses an update that starts now and that its caller
// decided by a clock. It is half of the clock tolerance after now by this host's clock, or the end of the caller's context if that
// is earlier. A caller that gives its context half of the tolerance before it reads its clock has the whole decision bounded. The
// bound is in the command, because the network can deliver a command long after the client has given up its connection.
//
// Let T be the tolerance and t the timeout of an operation. Clocks of hosts and servers may be apart by up to D = T/2 - t. A host
// reads H at the call, so the bound is H + T/2.
//
//   - The server is ahead by a. A command that is sent within t of the call arrives, by the server's clock, before H + t + a. That is
//     not after the bound if a <= D, so no command is refused that is in time. A server that is further ahead refuses some or all:
//     nothing takes effect late, and the error names the clocks.
//   - The server is behind by b. A late command can take effect up to T/2 + b after the call. That is harmless, because the server's
//     own clock takes part in the decision: the host judged a user active at H < horizon - T. The update takes effect while the
//     server's clock is before H + T/2 < horizon - T/2. A message whose sender's clock is ahead of the server's by up to T/2, so
//     also one by D, then has a time before the horizon, and fan-out delivers it by the old state, too. The clock of the host that
//     judged has dropped out.
//
// With t <= T/4, which the configuration demands, D is at least t, and two operations fit under one context of T/2 if the clocks
// agree: a view, and the step that follows it.
func (db *DB) latest(ctx context.Context) bson.DateTime { return soon(ctx, db.opts.ClockTolerance()/2) }

// soon returns the time that is so long after now by this host's clock, or the end of ctx if that is earlier.
func soon(ctx context.Context, after time.Duration) bson.DateTime {
	decided, cancel := context.WithTimeout(ctx, after)
	defer cancel()
	bound, _ := decided.Deadline()
	return date(bound)
}

// failAfter wraps an expression so that it fails once the server's clock has reached a time. The error names the document by one
// of its fields. Do not put it into the condition of an update: an upsert whose condition fails creates a record.
func failAfter(late bson.DateTime, field string, expression any) bson.D {
	failure := operator("$toDate", operator("$concat", bson.A{"the clocks are apart, or the command came late for ", "$" + field}))
	return operator("$cond", bson.A{operator("$lt", bson.A{"$$NOW", late}), expression, failure})
}
