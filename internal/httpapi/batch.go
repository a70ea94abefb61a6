package httpapi

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fanmail/fanmail/pkg/client"
)

const (
	// chunkLines and chunkBytes limit the part of a batch that is handled at once. The lines of one chunk share the store's
	// commits. The bytes of one chunk are held in memory.
	chunkLines = 1000
	chunkBytes = 1 << 20
	readBytes  = 64 << 10
)

// batch reads a request with one JSON object per line.
type batch struct {
	lines    *bufio.Reader
	maxLine  int
	maxLines int
	stream   *stream

	number int    // the number of the line that was read last, from 1
	text   []byte // the line that was read last
}

// newBatch begins to read a batch with lines of at most maxLine bytes. The caller must close the batch.
func (s *server) newBatch(w *response, r *http.Request, maxLine int) *batch {
	stream := newStream(w, r.Body, s.opts.IdleTimeout)
	return &batch{
		lines: bufio.NewReaderSize(stream, readBytes), maxLine: maxLine, maxLines: s.opts.BatchLines, stream: stream,
	}
}

func (b *batch) close() { b.stream.close() }

// next returns the next line without surrounding white space. The slice is valid until the next call. At the end, next returns
// io.EOF. For a line that is too long it returns a *client.Problem, and the caller can read on. Any other error means that the
// request broke off.
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
		case b.number == 1:
			return bytes.TrimSpace(bytes.TrimPrefix(b.text, byteOrderMark)), nil
		default:
			return bytes.TrimSpace(b.text), nil
		}
	}
}

// waiting reports whether the client may still have to send the rest of the next line.
func (b *batch) waiting() bool {
	buffered, _ := b.lines.Peek(b.lines.Buffered()) // does not read from the connection
	return bytes.IndexByte(buffered, '\n') < 0
}

// item is one line of a batch: its value, or the reason why it is refused.
type item[T any] struct {
	line  int
	value T
	err   error
}

// eachChunk reads a batch to its end and calls do with chunks of lines. If eager is set, eachChunk calls do before it would have to
// wait for the client. It stops at the first error of do. If the batch breaks off or has too many lines, it handles the lines
// before, and returns a problem with the number of the line.
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
			broken, more = b.stream.w.brokenOff(err, b.end(client.ProblemMalformed, "the request broke off on this line")), false
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

// end returns the problem for a batch that is not read to its end.
func (b *batch) end(t client.ProblemType, detail string) *client.Problem {
	p := newProblem(t, "", detail+": the lines before it were handled; send the others in another batch")
	p.Line = b.number
	return p
}

// stream is the body of a request whose answer may begin before the body ends. It cuts the connection if one read or one write
// takes longer than the idle timeout. So the request as a whole needs no timeout.
type stream struct {
	io.Reader
	w           *response
	unread      bool // the body has not been read to its end
	control     *http.ResponseController
	idleTimeout time.Duration
	timer       *time.Timer
	timedOut    atomic.Bool
}

func newStream(w *response, body io.Reader, idleTimeout time.Duration) *stream {
	s := &stream{Reader: body, w: w, unread: w.unread, control: http.NewResponseController(w), idleTimeout: idleTimeout}
	w.unread = false
	// A connection may lack one of these calls, and does not need it then: HTTP/2 is always full duplex.
	_ = s.control.EnableFullDuplex()
	_ = s.control.SetReadDeadline(time.Time{})
	_ = s.control.SetWriteDeadline(time.Time{})
	s.timer = time.AfterFunc(idleTimeout, func() {
		s.timedOut.Store(true)
		past := time.Unix(1, 0)
		_ = s.control.SetReadDeadline(past)
		_ = s.control.SetWriteDeadline(past)
	})
	s.timer.Stop()
	return s
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	s.timer.Reset(s.idleTimeout)
	defer s.timer.Stop()
	n, err := s.Reader.Read(p)
	s.unread = s.unread && !errors.Is(err, io.EOF)
	return n, err
}

// Write writes a part of the answer and flushes it. Its error wraps errHungUp, unless the server has cut the request.
func (s *stream) Write(p []byte) (int, error) {
	s.timer.Reset(s.idleTimeout)
	defer s.timer.Stop()
	n, err := s.w.Write(p)
	if err == nil {
		err = s.control.Flush()
	}
	if err != nil && !s.w.cut() {
		err = fmt.Errorf("%w: %w", errHungUp, err)
	}
	return n, err
}

// close gives the client one more idle timeout to receive the rest of the answer, and ends the reading of the body. After a timeout it does nothing.
func (s *stream) close() {
	s.timer.Stop()
	if s.timedOut.Load() {
		return
	}
	if s.unread {
		leaveBody(s.control)
		// A full-duplex server would take the rest of the body for the next request. A reader that exceeds its limit closes the connection.
		_, _ = http.MaxBytesReader(s.w.ResponseWriter, io.NopCloser(strings.NewReader("x")), 0).Read(make([]byte, 1))
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(s.idleTimeout)) //nolint:forbidigo // net.Conn compares deadlines with the system's clock
}
