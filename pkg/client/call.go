package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// maxProblemBytes limits how many bytes of a failure's body are read.
const maxProblemBytes = 1 << 20

// call is one request, and the function that reads its answer.
type call struct {
	method, path string
	query        url.Values
	content      string // the media type of body, if there is one
	body         []byte
	key          string      // the idempotency key, or empty
	header       http.Header // more headers
	idempotent   bool
	// read reads the body of a successful answer. It is called again if the call is repeated.
	read func(header http.Header, body io.Reader) error
}

// target is the path of a request, or the error of an argument that cannot be in it.
type target struct {
	path string
	err  error
}

// at returns the target with a path.
func at(path string) target { return target{path: path} }

// ask makes an idempotent request and returns its answer. Without a body the request has none.
func ask[T any](ctx context.Context, c *Client, method string, to target, query url.Values, body any) (answer T, err error) {
	k, err := newCall(method, to, query, body)
	if err == nil {
		k.read = jsonInto(&answer)
		err = c.do(ctx, k)
	}
	return answer, err
}

// get is ask for a request that only reads.
func get[T any](ctx context.Context, c *Client, to target, query url.Values) (T, error) {
	return ask[T](ctx, c, http.MethodGet, to, query, nil)
}

// tell is ask for a request whose answer has no body.
func (c *Client) tell(ctx context.Context, method string, to target, query url.Values, body any) error {
	k, err := newCall(method, to, query, body)
	if err != nil {
		return err
	}
	return c.do(ctx, k)
}

func newCall(method string, to target, query url.Values, body any) (call, error) {
	k := call{method: method, path: to.path, query: query, idempotent: true}
	if to.err != nil || body == nil {
		return k, to.err
	}
	k.content = ContentJSON
	var err error
	k.body, err = encode(body)
	return k, err
}

// jsonInto returns a reader of answers that decodes JSON into v.
func jsonInto[T any](v *T) func(http.Header, io.Reader) error {
	return func(_ http.Header, body io.Reader) error {
		*v = *new(T) // remove the fields of an earlier try
		return json.NewDecoder(body).Decode(v)
	}
}

// do makes a call, and repeats it as the package comment says. If ctx ends during a pause, the error wraps the cause and the last
// error.
func (c *Client) do(ctx context.Context, k call) error {
	pause := c.pause
	for try := 1; ; try++ {
		err := c.once(ctx, k)
		wait, again := repeat(k, err, pause)
		if !again || try >= c.tries || ctx.Err() != nil {
			return err
		}
		if cause := rest(ctx, wait); cause != nil {
			return fmt.Errorf("%w: %w", cause, err)
		}
		pause = min(2*pause, maxPause)
	}
}

// rest waits. If ctx ends before, it returns the cause.
func rest(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// repeat reports whether a call that ended with err may be repeated, and returns the pause before the next try.
func repeat(k call, err error, pause time.Duration) (time.Duration, bool) {
	if problem, ok := errors.AsType[*Problem](err); ok {
		safe := k.idempotent || problem.Type == ProblemBusy || problem.Type == ProblemRateLimited || problem.Type == ProblemClockAhead
		temporary := problem.Status == http.StatusServiceUnavailable || problem.Status == http.StatusTooManyRequests
		return max(problem.RetryAfter, pause), safe && temporary
	}
	_, broken := errors.AsType[*connectionError](err)
	return pause, broken && k.idempotent && !untrusted(err)
}

// connectionError means that the client could not reach the server, or that the connection broke before the answer was complete.
type connectionError struct {
	server string
	err    error
}

func (e *connectionError) Error() string {
	if untrusted(e.err) {
		return fmt.Sprintf("the certificate of %s is not trusted: %v: check the address and the trusted authorities", e.server, e.err)
	}
	return fmt.Sprintf("no answer from %s: %v: is a Fanmail server running there? \"fanmail serve\" starts one", e.server, e.err)
}

// untrusted reports whether the client does not trust the server's certificate. Then another try would fail, too.
func untrusted(err error) bool {
	_, is := errors.AsType[*tls.CertificateVerificationError](err)
	return is
}

func (e *connectionError) Unwrap() error { return e.err }

// once makes one try of a call.
func (c *Client) once(ctx context.Context, k call) error {
	server := c.serverOf(k.path)
	target := server + k.path
	if len(k.query) > 0 {
		target += "?" + k.query.Encode()
	}
	var body io.Reader
	if k.content != "" {
		body = bytes.NewReader(k.body)
	}
	request, err := http.NewRequestWithContext(ctx, k.method, target, body)
	if err != nil {
		return err
	}
	maps.Copy(request.Header, k.header)
	if k.content != "" {
		request.Header.Set("Content-Type", k.content)
	}
	if k.key != "" {
		request.Header.Set(IdempotencyKeyHeader, k.key)
	}
	if c.token != nil {
		token, err := c.token(ctx)
		if err != nil {
			return fmt.Errorf("token for %s: %w", server, err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return noAnswer(ctx, server, err)
	}
	defer func() {
		// Read the rest of the body, up to a limit. Only then can the connection be reused.
		_, _ = io.CopyN(io.Discard, response.Body, maxProblemBytes)
		_ = response.Body.Close()
	}()
	if response.StatusCode/100 != 2 {
		return problem(server, response)
	}
	if k.read == nil {
		return nil
	}
	err = k.read(response.Header, response.Body)
	_, failed := errors.AsType[*Problem](err) // a batch or an audit can fail after the status 200
	switch {
	case err == nil, failed:
		return err
	case ctx.Err() != nil, errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, new(net.Error)):
		return noAnswer(ctx, server, err)
	default:
		return notFanmail(server, err)
	}
}

func notFanmail(server string, err error) error {
	return fmt.Errorf("%s does not answer as a Fanmail server does: %w: check the address", server, err)
}

// noAnswer returns the error for a call without a complete answer. It is the error of the context if that has ended.
func noAnswer(ctx context.Context, server string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", server, context.Cause(ctx))
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // the wrapper repeats the URL
	}
	return &connectionError{server: server, err: err}
}

// problem reads a failure. An answer without a problem document does not come from Fanmail, but for example from a proxy in front
// of it.
func problem(server string, response *http.Response) error {
	problem := &Problem{}
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	body, err := io.ReadAll(io.LimitReader(response.Body, maxProblemBytes))
	if err != nil || media != ContentProblem || json.Unmarshal(body, problem) != nil {
		problem = &Problem{
			Title:  "The answer is not Fanmail's",
			Detail: server + " does not answer as a Fanmail server does: check the address",
		}
	}
	problem.Status = response.StatusCode
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		problem.RetryAfter = time.Duration(seconds) * time.Second
	}
	return problem
}
