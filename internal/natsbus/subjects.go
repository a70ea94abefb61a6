package natsbus

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fanmail/fanmail/pkg/event"
)

// Names of the streams.
const (
	// PublishedStream holds events of messages that no router has handled yet.
	PublishedStream = "FANMAIL_PUBLISHED"
	// FanoutStream holds tasks that are not done.
	FanoutStream = "FANMAIL_FANOUT"
	// LoginStream holds logins that no rehydrator has noted yet.
	LoginStream = "FANMAIL_LOGIN"
	// DeadLetterStream holds dead letters until they are redriven or dropped.
	DeadLetterStream = "FANMAIL_DLQ"
)

const (
	publishedSubject  = "fanmail.v1.published"
	fanoutPrefix      = "fanmail.v1.fanout."
	loginSubject      = "fanmail.v1.login"
	rehydratedSubject = "fanmail.v1.rehydrated"
	deadLetterPrefix  = "fanmail.v1.dlq."
	deadLetterUnknown = deadLetterPrefix + "unknown"
	// damagedSubject and deadLetterDamaged are the same for users whose records are damaged. A hash of the user ends the subject, because
	// the id may have any characters.
	damagedSubject    = "fanmail.v1.damaged"
	deadLetterDamaged = deadLetterPrefix + "damaged"

	routerConsumer     = "router"
	rehydratorConsumer = "rehydrator"
)

// taskSubject returns the subject of the tasks of a lane and partition.
func taskSubject(lane event.Lane, partition int) string {
	return fanoutPrefix + string(lane) + "." + strconv.Itoa(partition)
}

// taskConsumer returns the name of the consumer of a lane and partition.
func taskConsumer(lane event.Lane, partition int) string {
	return string(lane) + "-" + strconv.Itoa(partition)
}

// deadLetterSubject returns the subject of the dead letters of work from the given subject.
func deadLetterSubject(subject string) string {
	switch subject {
	case publishedSubject:
		return deadLetterPrefix + "published"
	case loginSubject:
		return deadLetterPrefix + "login"
	}
	rest, isTask := strings.CutPrefix(subject, fanoutPrefix)
	lane, _, _ := strings.Cut(rest, ".")
	if isTask && slices.Contains(event.Lanes(), event.Lane(lane)) {
		return deadLetterPrefix + lane
	}
	return deadLetterUnknown
}
