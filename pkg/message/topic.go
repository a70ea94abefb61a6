package message

import (
	"iter"
	"slices"
	"strconv"
	"strings"
)

const (
	// MaxTopicSegments is how many segments a topic has at most.
	MaxTopicSegments = 8
	// MaxSegmentBytes is the greatest length of a segment of a topic, in bytes of UTF-8.
	MaxSegmentBytes = 64
	// MaxTopics is how many topics a message has at most.
	MaxTopics = 8
)

// segmentEnd stands between two segments of a topic.
const segmentEnd = "/"

// Topic is a node in a tree of subjects: the path from the root to it, such as programming/go, of 1 to MaxTopicSegments segments. A segment follows
// the rules of user ids, and has 1 to MaxSegmentBytes bytes. Topics are ordered byte by byte, so a topic comes before the topics below it, with
// others between: a-b is between a and a/b.
type Topic string

// Segments returns the segments of the topic.
func (t Topic) Segments() []string { return strings.Split(string(t), segmentEnd) }

// Parent returns the topic above, or the empty topic for one of a single segment.
func (t Topic) Parent() Topic { return t[:max(0, strings.LastIndex(string(t), segmentEnd))] }

// Path returns the topics from the topmost ancestor down to the topic itself.
func (t Topic) Path() iter.Seq[Topic] {
	return func(yield func(Topic) bool) {
		for i := range len(t) {
			if t[i:i+1] == segmentEnd && !yield(t[:i]) {
				return
			}
		}
		yield(t)
	}
}

// In reports whether the topic is above, or is below it at any depth.
func (t Topic) In(above Topic) bool {
	return strings.HasPrefix(string(t), string(above)) && (len(t) == len(above) || t[len(above):len(above)+1] == segmentEnd)
}

// Validate returns nil, or an *InvalidError for the named field that says what is wrong with the topic.
func (t Topic) Validate(field string) error {
	segments := t.Segments()
	switch {
	case t == "":
		return invalid(field, "is empty: a topic has 1 to %d segments, with a slash between two", MaxTopicSegments)
	case len(segments) > MaxTopicSegments:
		return invalid(field, "has %d segments: a topic has at most %d", len(segments), MaxTopicSegments)
	}
	for i, segment := range segments {
		name := field + ", segment " + strconv.Itoa(i+1)
		switch {
		case segment == "":
			return invalid(name, "is empty: a segment has 1 to %d bytes", MaxSegmentBytes)
		case len(segment) > MaxSegmentBytes:
			return invalid(name, "has %d bytes: a segment has at most %d", len(segment), MaxSegmentBytes)
		}
		if err := validateID(name, segment, "a segment"); err != nil {
			return err
		}
	}
	return nil
}

// topics returns the topics of a draft, ascending and each once.
func topics(d Draft) ([]Topic, error) {
	if len(d.Topics) > MaxTopics {
		return nil, invalid("topics", "has %d topics: at most %d are allowed", len(d.Topics), MaxTopics)
	}
	for i, t := range d.Topics {
		if err := t.Validate("topics[" + strconv.Itoa(i) + "]"); err != nil {
			return nil, err
		}
	}
	sorted := slices.Clone(d.Topics)
	slices.Sort(sorted)
	return slices.Compact(sorted), nil
}
