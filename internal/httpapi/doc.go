// Package httpapi serves Fanmail over HTTP: the handlers, their problem documents and their limits. Package pkg/client
// declares the types on the wire.
//
// Every failed request is answered with a problem document (RFC 9457). The type is a client.ProblemType. The detail says what is
// wrong and what to do. The field names the part of the request, if there is one:
//
//	400 malformed                a request that cannot be read: not JSON, a field that is unknown or of another type
//	404 not-found                a path, message, user or entry that does not exist
//	405 method-not-allowed       a method that the path does not have; the header Allow lists those it has
//	409 backwards                a time before the one that is recorded
//	413 too-large                a request body, a line or a batch over its limit
//	415 unsupported-media-type   a body declared to be something other than JSON
//	422 invalid                  a value that can be read and is not allowed
//	422 key-reused               an idempotency key that was used for another message
//	500 internal                 a failure; the log has it under the id in the header X-Request-Id
//	503 busy                     the server accepted nothing; try again after Retry-After
//	503 unavailable              part of it may have been done; try again after Retry-After
//
// Batches are NDJSON: one JSON object per line, and each line succeeds or fails alone. The server reads and handles a batch in chunks,
// so its length costs no memory. It ignores blank lines and counts them. It answers a batch of messages line by line, in order, while it
// reads: the client must read the answers while it sends. With an Idempotency-Key, the key of the message on line n is that key, '#' and
// n. When a batch breaks off, the lines before stay handled.
//
// A user id is one segment of a path, percent-encoded. The server does not normalize paths: a path with empty or dot
// segments is not found, and never redirected.
package httpapi
