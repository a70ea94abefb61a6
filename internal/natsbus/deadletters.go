package natsbus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/pkg/event"
)

// DeadLetters implements bus.DeadLetterQueue. A letter that cannot be decoded has the reason "unreadable". An operator
// must decide what to do with it.
func (b *Bus) DeadLetters(ctx context.Context, after uint64, limit int) ([]event.Filed, error) {
	stored, err := b.read(ctx, DeadLetterStream, deadLetterPrefix+">", after+1, limit)
	if err != nil {
		return nil, classify(ctx, "read dead letters", err)
	}
	filed := make([]event.Filed, len(stored))
	for i, s := range stored {
		letter, err := event.DecodeDeadLetter(s.Payload)
		if err != nil {
			letter = event.DeadLetter{Reason: "unreadable", Error: err.Error(), Subject: s.Subject, Payload: s.Payload}
		}
		letter.Trace = s.Trace
		filed[i] = event.Filed{ID: s.Sequence, At: s.Stored, DeadLetter: letter}
	}
	return filed, nil
}

// FileDamaged implements bus.Emitter. The server compares the last sequence of the subject. The sequence that it expects is that of the letter to be
// replaced, which is removed when the new one is there. If the process dies in between, there are two letters, which is harmless.
func (b *Bus) FileDamaged(ctx context.Context, d event.Damaged, cause string) (filed bool, err error) {
	err = b.changeLetters(ctx, func() error {
		filed, err = b.fileDamaged(ctx, d, cause)
		return err
	})
	return filed, err
}

func (b *Bus) fileDamaged(ctx context.Context, d event.Damaged, cause string) (filed bool, err error) {
	const doing = "file a damaged user"
	letter := event.DeadLetter{Version: event.Version, Reason: event.ReasonDamaged, Error: cause, Subject: damagedSubject}
	hash := sha256.Sum256([]byte(d.User))
	subject := deadLetterDamaged + "." + hex.EncodeToString(hash[:])
	for replaced := uint64(0); ; {
		var msg *nats.Msg
		if letter.Payload, err = d.Encode(); err == nil {
			msg, err = letterMsg(subject, letter)
		}
		if err != nil {
			return false, fmt.Errorf("natsbus: encode dead letter: %w", err)
		}
		setHeader(msg, jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(replaced, 10))
		if err = b.emit(ctx, []*nats.Msg{msg}); err == nil {
			b.metrics.deadLetters[deadLetterDamaged].Inc()
			if replaced > 0 {
				err = b.remove(ctx, DeadLetterStream, []uint64{replaced})
			}
			return true, classify(ctx, doing, err)
		}
		if !errors.Is(err, jetstream.ErrKeyExists) {
			return false, classify(ctx, doing, err)
		}
		newest, err := b.newestLetter(ctx, subject)
		switch {
		case err != nil:
			return false, classify(ctx, doing, err)
		case newest.Sequence == replaced:
			return false, fmt.Errorf("natsbus: %s: %w: another process is filing it", doing, bus.ErrUnavailable)
		}
		if known, readable := missed(newest); readable {
			if d = known.With(d); d == known {
				return false, nil
			}
		}
		replaced = newest.Sequence
	}
}

// Letters implements bus.Monitor. Letters of damaged users have a subject for each user. So it asks for the counts of the other subjects only.
func (b *Bus) Letters(ctx context.Context) (bus.Letters, error) {
	const doing = "count dead letters"
	stream, err := b.js.Stream(ctx, DeadLetterStream)
	if err != nil {
		return bus.Letters{}, classify(ctx, doing, err)
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(deadLetterPrefix+"*"))
	if err != nil {
		return bus.Letters{}, classify(ctx, doing, err)
	}
	letters := bus.Letters{ByStage: make(map[string]uint64), Last: info.State.LastSeq}
	damaged := info.State.Msgs
	for subject, n := range info.State.Subjects {
		letters.ByStage[strings.TrimPrefix(subject, deadLetterPrefix)] = n
		damaged -= min(n, damaged)
	}
	if damaged > 0 {
		letters.ByStage[strings.TrimPrefix(deadLetterDamaged, deadLetterPrefix)] = damaged
	}
	return letters, nil
}

// newestLetter returns the newest dead letter with a subject of its own, or one without a sequence if there is none.
func (b *Bus) newestLetter(ctx context.Context, subject string) (event.Delivery, error) {
	const most = 16 // there are two while one replaces the other, or after a crash
	found, err := b.read(ctx, DeadLetterStream, subject, 1, most)
	if err != nil || len(found) == 0 {
		return event.Delivery{}, err
	}
	return found[len(found)-1], nil
}

// missed returns what the user of a letter has missed, and false if the letter cannot be read.
func missed(stored event.Delivery) (event.Damaged, bool) {
	letter, err := event.DecodeDeadLetter(stored.Payload)
	if err != nil {
		return event.Damaged{}, false
	}
	d, err := event.DecodeDamaged(letter.Payload)
	return d, err == nil
}

// Drop implements bus.DeadLetterQueue.
func (b *Bus) Drop(ctx context.Context, id uint64) error {
	err := b.changeLetters(ctx, func() error { return b.remove(ctx, DeadLetterStream, []uint64{id}) })
	return classify(ctx, "drop a dead letter", err)
}

// Emit implements bus.DeadLetterQueue.
func (b *Bus) Emit(ctx context.Context, d event.DeadLetter) error {
	return classify(ctx, "emit work again", b.emit(ctx, []*nats.Msg{newMsg(d.Subject, d.Payload, d.Trace)}))
}

// Consumed implements bus.DeadLetterQueue.
func (b *Bus) Consumed(subject string) bool {
	if subject == publishedSubject || subject == loginSubject {
		return true
	}
	rest, isTask := strings.CutPrefix(subject, fanoutPrefix)
	lane, number, _ := strings.Cut(rest, ".")
	partition, err := strconv.Atoi(number)
	return isTask && err == nil && b.checkPlace(event.Lane(lane), partition) == nil
}
