// Package message holds the Message, its ID, its Audience, the rules that make it valid, and the Store contract. The canonical store
// holds each message once, and a stored message never changes.
//
// A message id is a UUIDv7 (RFC 9562), so ids sort by publish time. Messages are ordered by id everywhere. Sent, the time of a
// message, is the time in its id; a message has no other time that could differ.
//
// A message must become visible within the publish slack after its Sent. The store records when it stored a message. A message that
// was stored later is void (see Stored.Void): readers treat it as not published, and the publisher publishes it again under a new id.
// Without this rule an insert could hang for minutes, and then appear after a reader had already read messages of that time.
package message
