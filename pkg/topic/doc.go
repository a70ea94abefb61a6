// Package topic holds which topics there are.
//
// A topic is a node in a tree: it exists only below a topic that exists, and it is removed only while it has no topic below it and no user is
// subscribed to it. Its record, its children's records and the edges of its subscribers are records of their own, and no store changes two of
// them together. So a record has numbers that other records repeat, and is changed by compare-and-swap. docs/adr/0071-closing-a-topic.md has the
// rules.
package topic
