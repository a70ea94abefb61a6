package mongostore

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// clockSkew is how far the server's clock may be ahead of this host's before what is judged by a clock comes late. With
// DefaultTimeout it keeps what takes effect within a minute, the half of the default clock tolerance.
const clockSkew = 45 * time.Second

// latest returns when updates that are judged by a clock, and begin now, may take effect at the latest, by the server's clock: not
// after the end of the caller's context, and not long after the deadline of an operation. A command can be held up
// on its way to the server long after its connection was given up, and the server would not know.
func (db *DB) latest(ctx context.Context) bson.DateTime {
	limited, cancel := context.WithTimeout(ctx, db.opts.Timeout)
	defer cancel()
	bound, _ := limited.Deadline()
	bound = bound.Add(clockSkew)
	if end, ok := ctx.Deadline(); ok && end.Before(bound) {
		bound = end
	}
	return date(bound)
}

// failAfter returns an expression that fails once the server's clock is past a time, and is another one until then. The failure
// names the document by one of its fields. In the condition of an update it would not do: an upsert whose condition fails makes a
// record.
func failAfter(late bson.DateTime, field string, expression any) bson.D {
	failure := operator("$toDate", operator("$concat", bson.A{"the clocks are apart, or the command came late for ", "$" + field}))
	return operator("$cond", bson.A{operator("$lt", bson.A{"$$NOW", late}), expression, failure})
}
