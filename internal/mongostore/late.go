package mongostore

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// clockSkew is how far the server's clock may be ahead of this host's clock before an update that is compared with a clock
// comes late. Together with DefaultTimeout it makes such an update take effect within a minute, which is half of the default
// clock tolerance.
const clockSkew = 45 * time.Second

// latest returns the latest time, on the server's clock, at which an update that starts now may take effect. It is not after
// the end of the caller's context, and not long after the deadline of the operation. The network can deliver a command long
// after the client has given up its connection, and the server would not know.
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

// failAfter wraps an expression so that it fails once the server's clock has passed a time. The error names the document by one
// of its fields. Do not put it into the condition of an update: an upsert whose condition fails creates a record.
func failAfter(late bson.DateTime, field string, expression any) bson.D {
	failure := operator("$toDate", operator("$concat", bson.A{"the clocks are apart, or the command came late for ", "$" + field}))
	return operator("$cond", bson.A{operator("$lt", bson.A{"$$NOW", late}), expression, failure})
}
