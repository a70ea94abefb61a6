package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fanmail/fanmail/internal/auth"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// response is an http.ResponseWriter that records the answer's status, and facts about the request for the log.
type response struct {
	http.ResponseWriter
	// request is the id of the request.
	request string
	// trace is the id of the request's trace, or empty if the request is not recorded.
	trace string
	// principal is the authenticated client; nil if the endpoint needs no authentication.
	principal *auth.Principal
	// status is the HTTP status of the answer, or 0 if the answer has not begun.
	status int
	// memory is what is reserved for the request.
	memory reservation
	// message is the id of the published message, or zero.
	message message.ID
	// unread is true until the body of the request is read to its end, or by a stream.
	unread bool
	// gone reports whether the client has ended the request, and not the server; cut the reverse.
	gone, cut func() bool
	// opened makes the request one that waits for something to happen: it counts no more as in progress, and its span ends.
	opened func()
	stream bool
	// left is the error of a request that could not be finished because its client is gone; nil if there is none.
	left error
}

// statusHungUp is recorded for a request whose client is gone before the answer. Proxies use the same number. No client receives it.
const statusHungUp = 499

// outcome returns the status under which a request is recorded: that of the answer, or statusHungUp.
func (w *response) outcome() int {
	if w.left != nil {
		return statusHungUp
	}
	return w.status
}

// WriteHeader implements http.ResponseWriter.
func (w *response) WriteHeader(status int) {
	w.begin(status)
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *response) Write(p []byte) (int, error) {
	w.begin(http.StatusOK)
	return w.ResponseWriter.Write(p)
}

func (w *response) begin(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	if w.unread {
		leaveBody(http.NewResponseController(w.ResponseWriter))
	}
}

// leaveBody gives the client a second to send the rest of a body that no handler reads. Then net/http closes the connection. Without the
// deadline a client without a token could hold a connection for as long as it sends a byte now and then.
func leaveBody(control *http.ResponseController) {
	_ = control.SetReadDeadline(time.Now().Add(time.Second)) //nolint:forbidigo // net.Conn compares deadlines with the system's clock
}

// Unwrap lets http.ResponseController reach the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ServeHTTP answers one request. If the handler panics, the answer is a problem, or the connection is cut.
func (s *server) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w := &response{ResponseWriter: rw, request: s.instance + "-" + strconv.FormatUint(s.requests.Add(1), 10), unread: r.ContentLength != 0}
	w.Header().Set(client.RequestIDHeader, w.request)
	started := s.opts.Now()
	s.measured.inFlight.Inc()
	defer func() { s.measure(w, r, started) }() // runs last, also if the connection is cut; by then the mux has set r.Pattern
	r, span := s.begin(w, r)
	ctx := r.Context()
	// A context that the server cancels has another cause. That of a deadline is context.DeadlineExceeded.
	w.gone = func() bool { return errors.Is(context.Cause(ctx), context.Canceled) }
	w.cut = func() bool { return ctx.Err() != nil && !w.gone() }
	end := sync.OnceFunc(func() { s.end(w, r, span) })
	w.opened = func() {
		w.stream = true
		s.measured.inFlight.Dec()
		end()
	}
	defer func() {
		defer end()
		s.recovered(w, r, recover())
		s.logRequest(w, r, started)
	}()
	if s.shared(w, r) {
		return
	}
	if !clean(r.URL.EscapedPath()) {
		s.fail(w, errNoPath)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// recovered answers a request whose handler panicked with cause. It does nothing if cause is nil.
func (s *server) recovered(w *response, r *http.Request, cause any) {
	if cause == nil {
		return
	}
	if err, ok := cause.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
		s.panics.Count()
		s.line(w, s.opts.Logger.Error()).Str("method", r.Method).Str("pattern", r.Pattern).
			Interface("panic", fmt.Sprint(cause)).Bytes("stack", debug.Stack()).Msg("a handler panicked")
	}
	if w.status != 0 {
		panic(http.ErrAbortHandler) // cuts the connection, because an incomplete answer must not look complete
	}
	writeProblem(w, newProblem(client.ProblemInternal, "", internalDetail))
}

func (s *server) measure(w *response, r *http.Request, started time.Time) {
	if !w.stream {
		s.measured.inFlight.Dec()
	}
	s.measured.count(r.Pattern, r.Method, w.outcome(), s.opts.Now().Sub(started), w.stream)
}

func (s *server) logRequest(w *response, r *http.Request, started time.Time) {
	e := s.opts.Logger.Debug()
	if !e.Enabled() {
		return
	}
	s.line(w, e).Str("method", r.Method).Str("pattern", r.Pattern).
		Int("status", w.outcome()).AnErr("error", w.left).Stringer("took", s.opts.Now().Sub(started).Round(time.Microsecond))
	named := "message_id"
	if strings.HasPrefix(r.Pattern, "/v1/admin/dlq") {
		named = "dead_letter_id"
	}
	for name, field := range map[string]string{"user": "user", "followee": "followee", "topic": "topic", "id": named} {
		if value := r.PathValue(name); value != "" {
			e.Str(field, value)
		}
	}
	if w.principal != nil {
		e.Str("who", w.principal.Name())
	}
	if !w.message.IsZero() {
		e.Stringer("message_id", w.message)
	}
	e.Msg("request")
}

// maxPooled is the maximum size of a pooled buffer, so that a rare large request does not keep its memory.
const maxPooled = 256 << 10

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func takeBuffer() *bytes.Buffer { return buffers.Get().(*bytes.Buffer) }

func returnBuffer(b *bytes.Buffer) {
	if b.Cap() <= maxPooled {
		b.Reset()
		buffers.Put(b)
	}
}

// newEncoder returns an encoder that does not escape <, > and &.
func newEncoder(b *bytes.Buffer) *json.Encoder {
	encoder := json.NewEncoder(b)
	encoder.SetEscapeHTML(false)
	return encoder
}

// writeJSON answers with a JSON document. If v cannot be encoded, it returns an error and has written nothing. It ignores errors of
// the connection, because no client can receive them.
func writeJSON(w *response, status int, content string, v any) error {
	b := takeBuffer()
	defer returnBuffer(b)
	if err := newEncoder(b).Encode(v); err != nil {
		return err
	}
	w.Header().Set("Content-Type", content)
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
	return nil
}

// done answers 204 unless there is an error, which it returns.
func done(w *response, err error) error {
	if err != nil {
		return err
	}
	return noContent(w)
}

// noContent answers 204.
func noContent(w *response) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}
