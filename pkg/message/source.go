package message

import (
	"slices"
	"strings"
)

// Source is what a user can have an edge to, so that messages reach the user: an author, or a topic. The source of an author
// is the author's id. That of a topic begins with byte 01, which no user id holds. A source that begins with byte 02 is the block of a user: an
// edge to it says that its follower blocks the user, and no message reaches anybody by it.
type Source string

// topicMark is the first byte of the source of a topic.
const topicMark = "\x01"

// Source returns the source of the messages that an author sends to followers.
func (u UserID) Source() Source { return Source(u) }

// Source returns the source of the messages to a topic or to any topic below it.
func (t Topic) Source() Source { return Source(topicMark + string(t)) }

// Block returns the source to which the users who block u have edges.
func (u UserID) Block() Source { return FirstBlock + Source(u) }

// FirstTopic is below the source of every topic: that of the empty topic.
const FirstTopic Source = topicMark

// FirstBlock is below every block, which begins with it, and above the source of every topic.
const FirstBlock Source = "\x02"

// FirstAuthor is below the source of every author, and above every block.
const FirstAuthor Source = "\x03"

// Topic returns the topic whose source s is, or false.
func (s Source) Topic() (Topic, bool) {
	if s.IsTopic() {
		return Topic(s[len(topicMark):]), true
	}
	return "", false
}

// IsTopic reports whether s is the source of a topic.
func (s Source) IsTopic() bool { return len(s) > 0 && s[:len(topicMark)] == topicMark }

// IsBlock reports whether s is the block of a user.
func (s Source) IsBlock() bool { return strings.HasPrefix(string(s), string(FirstBlock)) }

// Blocked returns the user whose block s is. It is meant for sources of which IsBlock is true.
func (s Source) Blocked() UserID { return UserID(s[len(FirstBlock):]) }

// Author returns the author whose source s is. It is meant for sources that are neither those of topics nor blocks.
func (s Source) Author() UserID { return UserID(s) }

// Validate returns nil, or an *InvalidError for the named field that says what is wrong with the source.
func (s Source) Validate(field string) error {
	if t, ok := s.Topic(); ok {
		return t.Validate(field)
	}
	return UserID(s).Validate(field)
}

// String returns the author's id, the path of the topic after the word topic, or the id of the user after the words block of.
func (s Source) String() string {
	if t, ok := s.Topic(); ok {
		return "topic " + string(t)
	}
	if s.IsBlock() {
		return "block of " + string(s.Blocked())
	}
	return string(s)
}

// Broadcast reports whether the message goes to users by their edges, besides those whom it names.
func (m Message) Broadcast() bool { return m.ToFollowers() || len(m.Topics) > 0 }

// Reaches reports whether the message reaches the users who have an edge to the source.
func (m Message) Reaches(s Source) bool {
	if t, ok := s.Topic(); ok {
		return slices.ContainsFunc(m.Topics, func(own Topic) bool { return own.In(t) })
	}
	return m.ToFollowers() && m.From == UserID(s)
}

// Sources returns the sources that the message reaches its audience by: its author, if it is for followers, and its topics with all their
// ancestors. They are ascending, each once.
func (m Message) Sources() []Source {
	if len(m.Topics) == 0 {
		if m.ToFollowers() {
			return []Source{m.From.Source()}
		}
		return nil
	}
	var sources []Source
	for _, topic := range m.Topics {
		for t := range topic.Path() {
			sources = append(sources, t.Source())
		}
	}
	if m.ToFollowers() {
		sources = append(sources, m.From.Source())
	}
	slices.Sort(sources)
	return slices.Compact(sources)
}
