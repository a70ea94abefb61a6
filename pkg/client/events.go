package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

const (
	contentEvents = "text/event-stream"
	// silence is how long Events waits for the next byte. The server sends one every 25 seconds.
	silence = time.Minute
	// maxEventBytes limits the data of an event. A frame has at most 1 MiB of messages, and JSON may need several bytes for one.
	maxEventBytes = 8 << 20
)

var (
	errSilent    = errors.New("the server is silent") // why Events ends a connection
	errEventSize = errors.New("an event is too large")
)

// LookOption changes how Changes and Events look at an inbox.
type LookOption func(query url.Values)

// Peek makes Changes and Events not count as viewing the inbox. For a user who was never seen, the error is a *Problem of type ProblemNotFound.
func Peek() LookOption { return func(query url.Values) { query.Set("peek", "true") } }

// Changes returns how a user's inbox has changed since a page or a frame with a cursor. If nothing has changed, it waits for a change, at most wait
// (0 to MaxChangesWait), and then returns a frame without changes. An empty cursor gives a frame with Reset. A cursor that no page or frame of this
// inbox had may be a *Problem of type ProblemInvalid. Changes counts as viewing the inbox unless an option is Peek.
func (c *Client) Changes(ctx context.Context, user message.UserID, cursor string, wait time.Duration, opts ...LookOption) (Frame, error) {
	query := lookQuery(opts)
	query.Set("wait", wait.String())
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	return get[Frame](ctx, c, atUser(user, "/inbox/changes").within(wait, MaxChangesWait), query)
}

func lookQuery(opts []LookOption) url.Values {
	query := url.Values{}
	for _, opt := range opts {
		opt(query)
	}
	return query
}

// Events returns the changes of a user's inbox as they happen, each once, beginning at a cursor as Changes does. The first frame comes at once.
//
// Events connects again without limit, and continues after its last frame, when the connection ends or is silent for a minute, and when the server
// is unavailable (5xx) or limits the rate (429). Every other error is the last element of the sequence, and comes with an empty frame: the end of
// ctx, a refused token (ProblemUnauthorized), a refused cursor (ProblemInvalid: begin again without a cursor).
//
// Frames wait for a slow loop, and none is lost. A Timeout of Options.HTTP limits each connection, so leave it out.
func (c *Client) Events(ctx context.Context, user message.UserID, cursor string, opts ...LookOption) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		to := atUser(user, "/inbox/events")
		f := feed{Client: c, call: call{method: http.MethodGet, path: to.path, query: lookQuery(opts)}, cursor: cursor, yield: yield}
		if to.err == nil {
			to.err = f.run(ctx)
		}
		if !f.left {
			yield(Frame{}, to.err)
		}
	}
}

// feed is one loop over Events.
type feed struct {
	*Client

	call   call
	cursor string        // where the next connection begins
	last   *Frame        // the last frame, without its changes
	heard  bool          // whether the connection had a frame
	retry  time.Duration // the pause that the server asks for after a connection
	yield  func(Frame, error) bool
	left   bool // whether the loop has ended
}

// run connects until the loop or ctx ends, or another connection would fail, too.
func (f *feed) run(ctx context.Context) error {
	for pause := f.pause; ; {
		f.heard = false
		err := f.connect(ctx)
		var wait time.Duration
		_, again := errors.AsType[*connectionError](err)
		again = err == nil || again && !untrusted(err) || errors.Is(err, errSilent)
		if problem, ok := errors.AsType[*Problem](err); ok {
			wait = problem.RetryAfter
			again = problem.Status >= 500 || problem.Status == http.StatusTooManyRequests || problem.Status == http.StatusRequestTimeout
		}
		switch {
		case f.left, ctx.Err() != nil:
			return context.Cause(ctx)
		case !again:
			return err
		case f.heard:
			pause = f.pause
		default:
			pause = min(2*pause, maxPause)
		}
		wait = max(wait, pause, f.retry)
		// Many clients lose their connections at one moment. They come back at different moments.
		if cause := rest(ctx, wait+rand.N(min(wait, maxPause)/2+1)); cause != nil { //nolint:gosec // it is no secret
			return cause
		}
	}
}

// connect yields the frames of one connection. It returns nil if the connection was lost, or the loop has ended.
func (f *feed) connect(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer timer.Stop()
	f.call.header = http.Header{"Accept": {contentEvents}}
	if f.cursor != "" {
		f.call.header.Set("Last-Event-ID", f.cursor)
	}
	f.call.read = func(header http.Header, body io.Reader) error {
		if media := header.Get("Content-Type"); !strings.HasPrefix(media, contentEvents) {
			return fmt.Errorf("the content type is %q", media)
		}
		err = f.read(&events{in: bufio.NewReader(body), timer: timer})
		cancel(nil) // nothing waits for the rest of the body
		return nil
	}
	failed := f.once(ctx, f.call)
	return cmp.Or(failed, err)
}

// read yields frames until there are no more.
func (f *feed) read(from *events) error {
	for {
		name, data, err := from.next()
		f.retry = cmp.Or(from.retry, f.retry)
		switch {
		case errors.Is(err, errEventSize):
			return notFanmail(f.serverOf(f.call.path), err)
		case err != nil:
			return nil //nolint:nilerr // the connection is lost
		case name != "frame":
			continue
		}
		var frame Frame
		if err := json.Unmarshal(data, &frame); err != nil {
			return notFanmail(f.serverOf(f.call.path), err)
		}
		f.heard = true
		if f.last != nil && reflect.DeepEqual(frame, *f.last) {
			continue // the first frame of a connection, and nothing has changed
		}
		state := frame
		state.Reset, state.Messages, state.Gone, state.Flags, state.Older = false, nil, nil, nil, false
		f.cursor, f.last = frame.Cursor, &state
		if f.left = !f.yield(frame, nil); f.left {
			return nil
		}
	}
}

// events reads server-sent events, as the HTML standard defines them.
type events struct {
	in         *bufio.Reader
	timer      *time.Timer // runs for silence while in waits for bytes
	line, data []byte
	cr         bool          // the last line ended with CR: an LF behind it belongs to it
	retry      time.Duration // the pause that the server asked for last; 0 if it asked for none
}

// next returns the next event with data, which are valid until the next call. An event that the stream's end cuts off is none. The id of an event
// is not read, because the frame has it as its cursor.
func (e *events) next() (name string, data []byte, err error) {
	e.data = e.data[:0]
	for {
		if err := e.readLine(); err != nil {
			return "", nil, err
		}
		field, value, _ := bytes.Cut(e.line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			name = string(value)
		case "data":
			if len(e.data)+len(value) > maxEventBytes {
				return "", nil, errEventSize
			}
			e.data = append(append(e.data, value...), '\n')
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 32); err == nil {
				e.retry = time.Duration(ms) * time.Millisecond
			}
		case "": // the end of an event, or a comment
			if len(e.line) > 0 {
				continue
			}
			if end := len(e.data) - 1; end >= 0 {
				e.timer.Stop() // until the caller wants more
				return name, e.data[:end], nil
			}
			name = ""
		}
	}
}

// readLine reads a line without its end: CR, LF or both.
func (e *events) readLine() error {
	for e.line = e.line[:0]; ; {
		if e.in.Buffered() == 0 {
			e.timer.Reset(silence)
		}
		b, err := e.in.ReadByte()
		if err != nil {
			return err
		}
		second := b == '\n' && e.cr
		e.cr = b == '\r'
		switch {
		case second:
		case b == '\n', b == '\r':
			return nil
		case len(e.line) > maxEventBytes:
			return errEventSize
		default:
			e.line = append(e.line, b)
		}
	}
}
