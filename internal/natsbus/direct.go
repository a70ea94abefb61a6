package natsbus

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fanmail/fanmail/pkg/event"
)

const (
	directGetSubject = "$JS.API.DIRECT.GET." + FanoutStream
	deleteSubject    = "$JS.API.STREAM.MSG.DELETE." + FanoutStream
	// removeWindow is how many deletions are asked for at once. The server queues them behind everybody
	// else's requests, and drops the whole queue if it grows to thousands.
	removeWindow = 256
)

// directGetRequest is the request of the JetStream API for stored messages by sequence and subject. The
// server answers with one message each, and one that says that there are no more.
type directGetRequest struct {
	Sequence uint64 `json:"seq"`
	Subject  string `json:"next_by_subj"`
	Batch    int    `json:"batch"`
}

func (b *Bus) readBehind(ctx context.Context, task event.Delivery, limit int) ([]event.Delivery, error) {
	data, err := json.Marshal(directGetRequest{Sequence: task.Sequence + 1, Subject: task.Subject, Batch: limit})
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	in, err := b.openInbox(limit)
	if err != nil {
		return nil, err
	}
	defer in.close()
	if err := b.nc.PublishRequest(directGetSubject, in.sub.Subject, data); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	var tasks []event.Delivery
	for {
		msg, err := in.next(bounded, b.closed)
		if err != nil {
			return nil, err
		}
		switch status(msg) {
		case statusNone:
			task, err := stored(msg)
			if err != nil {
				return nil, err
			}
			tasks = append(tasks, task)
		case statusEndOfBatch, statusNotFound:
			return tasks, nil
		default:
			return nil, newStatusError(msg)
		}
	}
}

// stored returns a message that was read from a stream as a Delivery.
func stored(msg *nats.Msg) (event.Delivery, error) {
	sequence, err := strconv.ParseUint(msg.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return event.Delivery{}, fmt.Errorf("read the sequence of a stored message: %w", err)
	}
	at, err := time.Parse(time.RFC3339Nano, msg.Header.Get(jetstream.TimeStampHeaer))
	if err != nil {
		return event.Delivery{}, fmt.Errorf("read the time of a stored message: %w", err)
	}
	return event.Delivery{
		Sequence: sequence, Subject: msg.Header.Get(jetstream.SubjectHeader), Payload: msg.Data, Stored: at.UTC(),
	}, nil
}

// deleteRequest is the request of the JetStream API to delete a message.
type deleteRequest struct {
	Sequence uint64 `json:"seq"`
	// NoErase spares the server from overwriting the message on disk.
	NoErase bool `json:"no_erase"`
}

func (b *Bus) remove(ctx context.Context, tasks []event.Delivery) error {
	in, err := b.openInbox(len(tasks))
	if err != nil {
		return err
	}
	defer in.close()
	for _, task := range tasks {
		data, err := json.Marshal(deleteRequest{Sequence: task.Sequence, NoErase: true})
		if err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
		if err := b.nc.PublishRequest(deleteSubject, in.sub.Subject, data); err != nil {
			return err
		}
	}
	bounded, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	for range tasks {
		msg, err := in.next(bounded, b.closed)
		if err != nil {
			return err
		}
		if err := removed(msg); err != nil {
			return err
		}
	}
	return nil
}

// removed returns the error in the answer to a deleteRequest.
func removed(msg *nats.Msg) error {
	if status(msg) != statusNone {
		return newStatusError(msg)
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if answer.Error != nil && !isGone(answer.Error) {
		return answer.Error
	}
	return nil
}

// isGone tells whether deleting a message failed because it is not there.
func isGone(err *jetstream.APIError) bool {
	switch err.ErrorCode {
	case codeSequenceNotFound:
		return true
	case codeDeleteFailed: // one code for everything that a store refuses
		return err.Description == server.ErrStoreMsgNotFound.Error() || err.Description == server.ErrStoreEOF.Error()
	default:
		return false
	}
}
