// Package httpapi serves Fanmail over HTTP: the handlers, their problem documents and their limits. What goes over the
// wire is declared in pkg/client, whose client reads what this package writes.
//
// Whatever is not done is answered with a problem document (RFC 9457). Its type is one of client.ProblemType, its detail
// says what is wrong and what to do, its field names the part of the request where there is one:
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
//	503 busy                     nothing was taken; try again after Retry-After
//	503 unavailable              part of it may have been done; try again after Retry-After
//
// Batches are NDJSON: one JSON object a line, each handled on its own. They are read and handled a chunk at a time, so that
// their length costs no memory; blank lines are passed over but counted. A batch of messages is answered line by line, in
// order, while it is being read: whoever sends a long one reads the answers meanwhile. With an Idempotency-Key, the
// message on line n has that key followed by '#' and n. When a batch breaks off, what was handled before stays.
//
// A user id is one segment of a path, percent-encoded. Paths are taken as they are: one with empty or dot segments is not
// found, and is never redirected to what it might have meant.
package httpapi
