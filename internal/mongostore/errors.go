package mongostore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fanmail/fanmail/internal/retention"
	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

var (
	// ErrUnavailable says that the server cannot be reached, does not answer in time, or fails for a reason that may pass. The
	// requested change may have happened all the same.
	ErrUnavailable = message.ErrUnavailable
	// ErrClosed says that the database has been closed.
	ErrClosed = errors.New("the database is closed")
	// ErrNotInitialized says that a database, or a part of it, has not been created yet.
	ErrNotInitialized = errors.New("is not initialized: run fanmail admin init")
	// ErrFormat says that another version of Fanmail wrote data, in a format that this one cannot read.
	ErrFormat = errors.New("made by another version of Fanmail")
	// ErrCorrupt says that data is damaged.
	ErrCorrupt = fmt.Errorf("damaged document: %w", message.ErrCorrupt)
	// ErrPartitions says that a database was initialized with another number of partitions.
	ErrPartitions = errors.New("number of partitions differs")
	// ErrCapacity says that a database was initialized with buckets of another size.
	ErrCapacity = errors.New("size of buckets differs")
	// ErrNotSharded says that a server is not the router of a sharded cluster.
	ErrNotSharded = errors.New("is no mongos: collections can be sharded only through the router of a sharded cluster; leave --shard out, or connect to one")
)

// Codes of refusals that the code tells from others.
const (
	codeBadValue       = 2
	codeInvalidIDField = 53
)

// passingCodes are the codes of errors that may pass. All other answers of a server are final: a repetition would hide the reason until its
// deadline.
var passingCodes = []int{
	1,     // internal error: what a server could not name
	6,     // host unreachable: a shard or the config servers are away
	7,     // host not found
	24,    // a lock took too long
	43,    // the cursor is gone: its server has restarted
	50,    // no result within maxTimeMS
	64,    // not acknowledged by a majority in time
	70,    // shard not found: a router's routes are old
	89,    // network time-out
	91,    // shutdown in progress
	100,   // too few members for the write concern
	112,   // write conflict
	117,   // a conflicting operation is under way
	133,   // no member fits the read preference
	134,   // no majority is readable yet
	150,   // stale epoch: the collection was re-routed
	175,   // the query plan was killed
	189,   // the primary has stepped down
	202,   // a time limit between members
	216,   // an election is in progress
	237,   // the cursor was killed
	262,   // a time limit
	391,   // sign in again
	9001,  // socket exception
	10058, // no longer the primary
	10107, // no longer the primary
	11600, // interrupted by a shutdown
	11601, // interrupted
	11602, // interrupted by a change of the replica set's state
	13388, // stale configuration: a chunk has moved
	13435, // not the primary
	13436, // neither primary nor secondary: the member recovers

	// DocumentDB encodes the SQLSTATE of PostgreSQL.
	16777220, // 40001, serialization failure
	16908292, // 40P01, deadlock
	50463045, // 55P03, lock not available
	67371461, // 57014, query canceled
	16908741, // 57P01, admin shutdown
	33685957, // 57P02, crash shutdown
	50463173, // 57P03, cannot connect now
	12485,    // 53300, too many connections
}

// passingLabels are the labels by which a server or the driver says that a repetition can help.
var passingLabels = []string{"RetryableWriteError", "TransientTransactionError", "RetryableError"}

// duplicate reports whether a unique key refused a write.
func duplicate(err error) bool { return mongo.IsDuplicateKeyError(err) }

// permanent reports whether repeating a failed operation cannot help. An answer of a server may pass if passingCodes or passingLabels say so;
// any other error may pass unless it is listed here: the network failed, or time is up.
func permanent(err error) bool {
	for _, target := range []error{
		ErrClosed, ErrNotInitialized, ErrFormat, ErrPartitions, ErrCapacity, ErrNotSharded, mongo.ErrNoDocuments, mongo.ErrClientDisconnected,
		message.ErrCorrupt, message.ErrKeyChanged, userstate.ErrNotFound, settings.ErrChanged, settings.ErrForgotten,
		retention.ErrChanged, context.Canceled,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	if marshal, ok := errors.AsType[mongo.MarshalError](err); ok && marshal.Err != nil {
		return true
	}
	server, answered := errors.AsType[mongo.ServerError](err)
	return answered && !mongo.IsNetworkError(err) && !mongo.IsTimeout(err) && !slices.ContainsFunc(passingCodes, server.HasErrorCode) &&
		!slices.ContainsFunc(passingLabels, server.HasErrorLabel)
}

func hasCode(err error, codes ...int) bool {
	server, ok := errors.AsType[mongo.ServerError](err)
	if !ok {
		return false
	}
	return slices.ContainsFunc(codes, server.HasErrorCode)
}
