package natsbus

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fanmail/fanmail/pkg/event"
)

const (
	directGetPrefix = "$JS.API.DIRECT.GET."
	deletePrefix    = "$JS.API.STREAM.MSG.DELETE."
	// removeWindow is the number of concurrent deletions. The server has one queue for the requests of all clients, and drops
	// the whole queue if it grows to thousands.
	removeWindow = 256
)

// directGetRequest is the request of the JetStream API for stored messages by sequence and subject. The server sends each message
// as an answer of its own. A last answer marks the end.
type directGetRequest struct {
	Sequence uint64 `json:"seq"`
	Subject  string `json:"next_by_subj"`
	Batch    int    `json:"batch"`
}

// read returns at most limit messages of a stream whose subject matches, from a sequence number on, ascending.
func (b *Bus) read(ctx context.Context, stream, subject string, from uint64, limit int) ([]event.Delivery, error) {
	data, err := json.Marshal(directGetRequest{Sequence: from, Subject: subject, Batch: limit})
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	in, err := b.openInbox(limit)
	if err != nil {
		return nil, err
	}
	defer in.close()
	if err := b.nc.PublishRequest(directGetPrefix+stream, in.sub.Subject, data); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, b.opts.RequestTimeout)
	defer cancel()
	var found []event.Delivery
	for {
		msg, err := in.next(bounded, b.closed)
		if err != nil {
			return nil, err
		}
		switch status(msg) {
		case statusNone:
			one, err := stored(msg)
			if err != nil {
				return nil, err
			}
			found = append(found, one)
		case statusEndOfBatch, statusNotFound:
			return found, nil
		default:
			return nil, newStatusError(msg)
		}
	}
}

// stored returns a message from the answer to a directGetRequest as a Delivery.
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
		Sequence: sequence, Subject: msg.Header.Get(jetstream.SubjectHeader), Payload: msg.Data, Trace: traceOf(msg.Header), Stored: at.UTC(),
	}, nil
}

// deleteRequest is the request of the JetStream API to delete a message.
type deleteRequest struct {
	Sequence uint64 `json:"seq"`
	// NoErase is set, so the server does not overwrite the message on disk.
	NoErase bool `json:"no_erase"`
}

// remove removes messages from a stream. It ignores messages that are already removed.
func (b *Bus) remove(ctx context.Context, stream string, sequences []uint64) error {
	in, err := b.openInbox(len(sequences))
	if err != nil {
		return err
	}
	defer in.close()
	for _, sequence := range sequences {
		data, err := json.Marshal(deleteRequest{Sequence: sequence, NoErase: true})
		if err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
		if err := b.nc.PublishRequest(deletePrefix+stream, in.sub.Subject, data); err != nil {
			return err
		}
	}
	bounded, cancel := context.WithTimeout(ctx, b.opts.RequestTimeout)
	defer cancel()
	for range sequences {
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

// isGone reports whether a deletion failed because the message is already removed.
func isGone(err *jetstream.APIError) bool {
	switch err.ErrorCode {
	case codeSequenceNotFound:
		return true
	case codeDeleteFailed: // the store has this one code for every reason
		return err.Description == storeNotFound || err.Description == storeEnd
	default:
		return false
	}
}
