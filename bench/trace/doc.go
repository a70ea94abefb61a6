// Package trace replays recorded views and messages, and computes what policies of dormancy would have cost: rules that say in which
// inboxes a message is copied at once, and which inboxes are rebuilt when their owners return. It measures nothing itself. Its callers say what a
// copy, a rebuild and a page cost.
package trace
