// Package message holds the Message, its ID, its Audience, the rules that make it valid, and the Store contract. The canonical store
// holds each message once, and a stored message never changes.
//
// A message id is a UUIDv7 (RFC 9562), so ids sort by publish time. Messages are ordered by id everywhere. Sent, the time of a
// message, is the time in its id; a message has no other time that could differ.
//
// A message must become visible within the publish slack after its Sent. Its Sent must be at most the clock tolerance after the store's
// clock. The store decides this when it stores the message, and records the verdict (see Timing). Other messages are void: readers treat
// them as not published. The publisher publishes a late message again under a new id, and refuses a message from the future. Without this
// rule an insert could hang for minutes, and then appear after a reader had already read messages of that time.
package message
