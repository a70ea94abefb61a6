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

// Codes of errors that do not go away when an operation is repeated.
const (
	codeBadValue             = 2
	codeFailedToParse        = 9
	codeUnauthorized         = 13
	codeTypeMismatch         = 14
	codeInvalidLength        = 16
	codeAuthenticationFailed = 18
	codeIllegalOperation     = 20
	codeInvalidIDField       = 53
	codeCommandNotFound      = 59
	codeImmutableField       = 66
	codeCannotCreateIndex    = 67
	codeInvalidOptions       = 72
	codeIndexOptionsConflict = 85
	codeIndexKeyConflict     = 86
	codeDocumentValidation   = 121
	codeMechanismUnavailable = 334
	codeDocumentTooLarge     = 10334
	codeUpdateTooLarge       = 17419
	codeUpsertTooLarge       = 17420
	codeTooLargeDocumentDB   = 285999133
)

// duplicate reports whether a unique key refused a write.
func duplicate(err error) bool { return mongo.IsDuplicateKeyError(err) }

// tooLarge reports whether a write was refused because its document would exceed the size limit of documents.
func tooLarge(err error) bool {
	return hasCode(err, codeDocumentTooLarge, codeUpdateTooLarge, codeUpsertTooLarge, codeTooLargeDocumentDB)
}

// permanent reports whether repeating a failed operation cannot help. An unknown error counts as passing. Passing errors are
// deadlocks of colliding writers, a primary that steps down, a server that restarts and a network failure.
func permanent(err error) bool {
	for _, target := range []error{
		ErrClosed, ErrNotInitialized, ErrFormat, ErrPartitions, ErrCapacity, ErrNotSharded, mongo.ErrNoDocuments, mongo.ErrClientDisconnected,
		message.ErrCorrupt, message.ErrKeyChanged, userstate.ErrNotFound, settings.ErrChanged,
		retention.ErrChanged, context.Canceled,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	if marshal, ok := errors.AsType[mongo.MarshalError](err); ok && marshal.Err != nil {
		return true
	}
	return duplicate(err) || tooLarge(err) || hasCode(err,
		codeBadValue, codeFailedToParse, codeUnauthorized, codeTypeMismatch, codeInvalidLength, codeAuthenticationFailed, codeIllegalOperation,
		codeInvalidIDField, codeCommandNotFound, codeImmutableField, codeCannotCreateIndex, codeInvalidOptions,
		codeIndexOptionsConflict, codeIndexKeyConflict, codeDocumentValidation, codeMechanismUnavailable)
}

func hasCode(err error, codes ...int) bool {
	server, ok := errors.AsType[mongo.ServerError](err)
	if !ok {
		return false
	}
	return slices.ContainsFunc(codes, server.HasErrorCode)
}
