package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/fanmail/fanmail/pkg/message"
)

// maxKindBytes is the greatest length of the name of a kind of identities.
const maxKindBytes = 32

// MayAddress reports whether the principal may address users by identities of a kind, such as email. To a principal that may not, no
// identity of that kind exists.
func (p *Principal) MayAddress(kind string) bool {
	return p.everyKind || slices.Contains(p.kinds, kind)
}

// MayPublishTo reports whether the principal may publish to a topic. Then the subscribers of the topic's ancestors get the message, too.
func (p *Principal) MayPublishTo(topic message.Topic) bool {
	return p.Has(Publish) && slices.ContainsFunc(p.topics, func(t topicPattern) bool { return t.match(topic) })
}

// MaySubscribe reports whether the principal may subscribe a user for whom it acts to a topic.
func (p *Principal) MaySubscribe(topic message.Topic) bool {
	return slices.ContainsFunc(p.subscribe, func(t topicPattern) bool { return t.match(topic) })
}

// checkKinds returns an error for the first element of a list that cannot be a kind of identities.
func checkKinds(kinds []string) error {
	for i, kind := range kinds {
		if !validKind(kind) {
			return fmt.Errorf("identities[%d] is %q: a kind of identities has 1 to %d of the characters a-z, 0-9, _ and -, such as email", i, kind, maxKindBytes)
		}
	}
	return nil
}

func validKind(kind string) bool {
	return kind != "" && len(kind) <= maxKindBytes && strings.Trim(kind, "abcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}

// everyTopic matches all topics.
var everyTopic = []topicPattern{{below: true}}

// topicPattern is a topic, or all topics below one.
type topicPattern struct {
	topic message.Topic // empty for the root, below which all topics are
	below bool
}

func (t topicPattern) match(topic message.Topic) bool {
	switch {
	case !t.below:
		return topic == t.topic
	case t.topic == "":
		return true
	default:
		return topic != t.topic && topic.In(t.topic)
	}
}

// parseTopics reads patterns of topics. The error names the place of the first bad one in the list.
func parseTopics(list string, texts []string) ([]topicPattern, error) {
	patterns := make([]topicPattern, len(texts))
	for i, text := range texts {
		var err error
		if patterns[i], err = parseTopic(fmt.Sprintf("%s[%d] (%q)", list, i, text), text); err != nil {
			return nil, err
		}
	}
	return patterns, nil
}

// parseTopic reads a pattern: a topic such as news, all topics below one such as programming/*, or all topics, *. An error begins with
// the name.
func parseTopic(name, text string) (topicPattern, error) {
	if text == "*" {
		return topicPattern{below: true}, nil
	}
	path, below := strings.CutSuffix(text, "/*")
	topic := message.Topic(path)
	switch {
	case strings.Contains(path, "*"):
		return topicPattern{}, fmt.Errorf("%s has a * that is not its last segment: write news for one topic, news/* for all topics below it, or * for all", name)
	case strings.ContainsFunc(path, unicode.IsControl):
		return topicPattern{}, errors.New(name + " contains a control character")
	case below && len(topic.Segments()) == message.MaxTopicSegments:
		return topicPattern{}, fmt.Errorf("%s stands for no topic: a topic has at most %d segments", name, message.MaxTopicSegments)
	}
	return topicPattern{topic: topic, below: below}, topic.Validate(name)
}

// list is a claim of a JWT that other programs may use for something else. A claim that is not an array is an empty list, and elements that
// are not strings are left out: they grant nothing, and refuse no token.
type list []string

// UnmarshalJSON implements json.Unmarshaler.
func (l *list) UnmarshalJSON(text []byte) error {
	*l = nil
	var elements []json.RawMessage
	if json.Unmarshal(text, &elements) != nil {
		return nil //nolint:nilerr // the claim has another meaning
	}
	for _, element := range elements {
		var s string
		if json.Unmarshal(element, &s) == nil {
			*l = append(*l, s)
		}
	}
	return nil
}

// kinds returns the elements that may be kinds of identities.
func (l list) kinds() []string {
	return slices.DeleteFunc(slices.Clone(l), func(kind string) bool { return !validKind(kind) })
}

// topics returns the patterns of topics among the elements.
func (l list) topics() []topicPattern {
	var patterns []topicPattern
	for _, text := range l {
		if pattern, err := parseTopic("topic", text); err == nil {
			patterns = append(patterns, pattern)
		}
	}
	return patterns
}
