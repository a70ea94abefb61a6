package httpapi

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/fanmail/fanmail/pkg/client"
)

const (
	// chunkLines and chunkBytes bound how much of a batch is handled at once. So many lines share the store's commits,
	// and so many bytes are held in memory.
	chunkLines = 1000
	chunkBytes = 1 << 20
	readBytes  = 64 << 10
)

// batch is a request that has one JSON object a line, as it is being read.
type batch struct {
	lines    *bufio.Reader
	maxLine  int
	maxLines int
	stream   *stream

	number int    // of the line that was read last, from 1
	text   []byte // the line that was read last
}

// newBatch begins to read a batch with lines of at most so many bytes. The batch is to be closed.
func (s *server) newBatch(w *response, r *http.Request, maxLine int) *batch {
	stream := newStream(w, r.Body, s.opts.Patience)
	return &batch{
		lines: bufio.NewReaderSize(stream, readBytes), maxLine: maxLine, maxLines: s.opts.BatchLines, stream: stream,
	}
}

func (b *batch) close() { b.stream.close() }

// next reads a line without the white space around it. It returns io.EOF at the end, a *client.Problem for a line that is
// too long, after which the next one can be read, and any other error if the request broke off.
func (b *batch) next() ([]byte, error) {
	b.text = b.text[:0]
	b.number++
	size := 0
	for {
		part, err := b.lines.ReadSlice('\n')
		if size += len(part); size <= b.maxLine {
			b.text = append(b.text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && size == 0, err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case size > b.maxLine:
			return nil, refuse(client.ProblemTooLarge, "", "the line has more than %d bytes: send less", b.maxLine)
		default:
			return bytes.TrimSpace(b.text), nil
		}
	}
}

// waiting reports whether the next line may still have to be sent.
func (b *batch) waiting() bool {
	buffered, _ := b.lines.Peek(b.lines.Buffered()) // reads nothing
	return bytes.IndexByte(buffered, '\n') < 0
}

// item is a line of a batch: what it says, or why that is refused.
type item[T any] struct {
	line  int
	value T
	err   error
}

// eachChunk reads a batch to its end and calls do with its lines, many at a time. If eager is set, do does not wait for
// lines that may not have been sent yet. It stops at the first error of do. If the batch breaks off or has too many
// lines, it returns a problem for the line there, and the lines before it have been handled.
func eachChunk[T any](b *batch, eager bool, decode func([]byte) (T, error), do func([]item[T]) error) error {
	items := make([]item[T], 0, chunkLines)
	for size, more := 0, true; more; {
		text, err := b.next()
		_, refused := errors.AsType[*client.Problem](err)
		var broken error
		switch {
		case errors.Is(err, io.EOF):
			more = false
		case err != nil && !refused:
			broken, more = b.end(client.ProblemMalformed, "the request broke off on this line"), false
		case b.number > b.maxLines:
			broken, more = b.end(client.ProblemTooLarge, "the batch has more lines than the limit"), false
		case refused:
			items = append(items, item[T]{line: b.number, err: err})
		case len(text) > 0:
			value, err := decode(text)
			items = append(items, item[T]{line: b.number, value: value, err: err})
			size += len(text)
		}
		if len(items) > 0 && (!more || len(items) == chunkLines || size >= chunkBytes || eager && b.waiting()) {
			if err := do(items); err != nil {
				return err
			}
			items, size = items[:0], 0
		}
		if broken != nil {
			return broken
		}
	}
	return nil
}

// end returns the problem that ends a batch before its end.
func (b *batch) end(t client.ProblemType, detail string) error {
	p := newProblem(t, "", detail+": the lines before it were handled; send the others in another batch")
	p.Line = b.number
	return p
}

// stream is the body of a request that is read while its answer may be written already. It gives up on a client that
// neither sends nor takes anything for too long, so that no timeout is needed for the request as a whole.
type stream struct {
	io.Reader
	w        *response
	control  *http.ResponseController
	patience time.Duration
	giveUp   *time.Timer
	gaveUp   atomic.Bool
}

func newStream(w *response, body io.Reader, patience time.Duration) *stream {
	s := &stream{Reader: body, w: w, control: http.NewResponseController(w), patience: patience}
	// Neither is possible on every connection, and none is needed where it is not: HTTP/2 is duplex by nature.
	_ = s.control.EnableFullDuplex()
	_ = s.control.SetReadDeadline(time.Time{})
	_ = s.control.SetWriteDeadline(time.Time{})
	s.giveUp = time.AfterFunc(patience, func() {
		s.gaveUp.Store(true)
		past := time.Unix(1, 0)
		_ = s.control.SetReadDeadline(past)
		_ = s.control.SetWriteDeadline(past)
	})
	s.giveUp.Stop()
	return s
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	s.giveUp.Reset(s.patience)
	defer s.giveUp.Stop()
	return s.Reader.Read(p)
}

// Write writes a part of the answer, and sends it.
func (s *stream) Write(p []byte) (int, error) {
	s.giveUp.Reset(s.patience)
	defer s.giveUp.Stop()
	n, err := s.w.Write(p)
	if err == nil {
		err = s.control.Flush()
	}
	return n, err
}

// close lets the client have what is left of the answer, for as long as it may take. One that was given up gets nothing more.
func (s *stream) close() {
	s.giveUp.Stop()
	if s.gaveUp.Load() {
		return
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(s.patience)) //nolint:forbidigo // connections go by the system's clock
}
