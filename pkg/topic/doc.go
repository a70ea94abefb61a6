// Package topic defines topics and their records.
//
// A topic is a node in a tree. It exists only below a topic that exists. It is removed only while it has neither children nor subscribers.
// No store changes the records of a topic, of its children and of its subscribers' edges together. So each record has a number that other
// records repeat, and changes by compare-and-swap. docs/adr/0071-closing-a-topic.md has the rules.
package topic
