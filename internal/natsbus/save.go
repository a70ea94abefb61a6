package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fanmail/fanmail/internal/bus"
)

const (
	snapshotPrefix = "$JS.API.STREAM.SNAPSHOT."
	restorePrefix  = "$JS.API.STREAM.RESTORE."
	// savedChunk is how many bytes of a saved stream one message restores.
	savedChunk = 128 << 10
	// allLetters is the weight of a call that keeps all others from the dead letters.
	allLetters = 1 << 32
)

// savedStreams are the streams that a backup has. The store knows what the others hold.
func savedStreams() []string { return []string{LoginStream, DeadLetterStream} }

// savedStream describes a saved stream. The server says it when it saves the stream, and needs it to restore the stream.
type savedStream struct {
	Config json.RawMessage `json:"config"`
	State  json.RawMessage `json:"state"`
}

// apiAnswer is the answer of the JetStream API to a request.
type apiAnswer struct {
	savedStream
	Error          *jetstream.APIError `json:"error"`
	DeliverSubject string              `json:"deliver_subject"`
}

// Save saves the streams of logins and of dead letters to files in dir, with the ids and times of their messages. Then it calls store,
// which saves the store. Meanwhile this process neither files nor removes dead letters: the store could say that a letter exists that the
// backup lacks. These calls wait until Save returns.
func (b *Bus) Save(ctx context.Context, dir string, store func() error) error {
	if err := b.letters.Acquire(ctx, allLetters); err != nil {
		return err
	}
	defer b.letters.Release(allLetters)
	for _, name := range savedStreams() {
		if err := b.saveStream(ctx, name, filepath.Join(dir, name)); err != nil {
			return classify(ctx, "save the stream "+name, err)
		}
	}
	return store()
}

// changeLetters calls do, which changes the stream of dead letters. It waits while Save runs.
func (b *Bus) changeLetters(ctx context.Context, do func() error) error {
	if err := b.letters.Acquire(ctx, 1); err != nil {
		return err
	}
	defer b.letters.Release(1)
	return do()
}

// saveStream saves a stream to two files: the one with the given path, and one with its description. The server sends the stream in
// chunks, ended by an empty message, which has a status after a failure. Each chunk is answered, so that the server sends no more than can
// be received.
func (b *Bus) saveStream(ctx context.Context, name, path string) (err error) {
	sub, err := b.nc.SubscribeSync(b.nc.NewInbox())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sub.Unsubscribe()) }()
	answer, err := ask(ctx, b.nc, snapshotPrefix+name, map[string]any{"deliver_subject": sub.Subject, "no_consumers": true})
	if err != nil {
		return err
	}
	err = writeFile(path, func(to io.Writer) error {
		for {
			chunk, err := sub.NextMsgWithContext(ctx)
			switch {
			case err != nil:
				return err
			case len(chunk.Data) == 0:
				if status := chunk.Header.Get("Status"); status != "" && status != "204" {
					return fmt.Errorf("the server ended it: %s %s", status, chunk.Header.Get("Description"))
				}
				return nil
			case chunk.Reply != "":
				if err := chunk.Respond(nil); err != nil {
					return err
				}
			}
			if _, err := to.Write(chunk.Data); err != nil {
				return err
			}
		}
	})
	if err != nil {
		return err
	}
	return writeFile(path+".json", func(to io.Writer) error { return json.NewEncoder(to).Encode(answer.savedStream) })
}

// writeFile writes a new file and syncs it.
func writeFile(path string, write func(io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the operator names the folder
	if err != nil {
		return err
	}
	if err = write(file); err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// ask sends a request to the JetStream API, and returns its answer.
func ask(ctx context.Context, nc *nats.Conn, subject string, request any) (answer apiAnswer, err error) {
	data, err := json.Marshal(request)
	if err != nil {
		return answer, err
	}
	return answerOf(nc.RequestWithContext(ctx, subject, data))
}

func answerOf(msg *nats.Msg, err error) (answer apiAnswer, _ error) {
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return answer, err
	}
	if answer.Error != nil {
		return answer, answer.Error
	}
	return answer, nil
}

// Restore restores the streams that Save has saved in dir to a server that does not have them.
func Restore(ctx context.Context, server nats.InProcessConnProvider, dir string) error {
	nc, err := nats.Connect("", nats.InProcessServer(server), nats.Name("fanmail restore"))
	if err != nil {
		return fmt.Errorf("natsbus: restore the streams: %w: %w", bus.ErrUnavailable, err)
	}
	defer nc.Close()
	for _, name := range savedStreams() {
		if err := restoreStream(ctx, nc, name, filepath.Join(dir, name)); err != nil {
			return classify(ctx, "restore the stream "+name, err)
		}
	}
	return nil
}

// restoreStream restores one stream: it sends chunks, each when the server has answered the one before, and an empty message at the end.
func restoreStream(ctx context.Context, nc *nats.Conn, name, path string) (err error) {
	described, err := os.ReadFile(path + ".json") //nolint:gosec // the operator names the folder
	if err != nil {
		return err
	}
	file, err := os.Open(path) //nolint:gosec // see above
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	begun, err := ask(ctx, nc, restorePrefix+name, json.RawMessage(described))
	if err != nil {
		return err
	}
	for chunk := make([]byte, savedChunk); ; {
		n, err := io.ReadFull(file, chunk)
		if n > 0 {
			if err := sendChunk(ctx, nc, begun.DeliverSubject, chunk[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			_, err := answerOf(nc.RequestWithContext(ctx, begun.DeliverSubject, nil))
			return err
		case err != nil:
			return err
		}
	}
}

// sendChunk sends a chunk of a stream. The server answers nothing, or an error.
func sendChunk(ctx context.Context, nc *nats.Conn, subject string, chunk []byte) error {
	msg, err := nc.RequestWithContext(ctx, subject, chunk)
	if err == nil && len(msg.Data) > 0 {
		_, err = answerOf(msg, nil)
	}
	return err
}
