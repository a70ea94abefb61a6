package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// maxProblemBytes bounds what is read of an answer that is no success.
const maxProblemBytes = 1 << 20

// call is one request, and what to do with its answer.
type call struct {
	method, path string
	query        url.Values
	content      string // the media type of body, if there is one
	body         []byte
	key          string // the idempotency key, or empty
	idempotent   bool
	// read reads the answer of a success. It is called again if the call is repeated.
	read func(header http.Header, body io.Reader) error
}

// jsonInto returns a reader of answers that decodes JSON into v.
func jsonInto[T any](v *T) func(http.Header, io.Reader) error {
	return func(_ http.Header, body io.Reader) error {
		*v = *new(T) // nothing may be left of an earlier try
		return json.NewDecoder(body).Decode(v)
	}
}

// do makes a call, and repeats it as the package comment says.
func (c *Client) do(ctx context.Context, k call) error {
	pause := c.pause
	for try := 1; ; try++ {
		err := c.once(ctx, k)
		wait, again := repeat(k, err, pause)
		if !again || try >= c.tries || ctx.Err() != nil {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		pause = min(2*pause, maxPause)
	}
}

// repeat reports whether a call that ended with err may be repeated, and after which pause.
func repeat(k call, err error, pause time.Duration) (time.Duration, bool) {
	if problem, ok := errors.AsType[*Problem](err); ok {
		harmless := k.idempotent || problem.Type == ProblemBusy || problem.Type == ProblemRateLimited || problem.Type == ProblemClockAhead
		later := problem.Status == http.StatusServiceUnavailable || problem.Status == http.StatusTooManyRequests
		return max(problem.RetryAfter, pause), harmless && later
	}
	_, broken := errors.AsType[*connectionError](err)
	return pause, broken && k.idempotent && !untrusted(err)
}

// connectionError says that a server could not be reached, or went away before it had answered.
type connectionError struct {
	server string
	err    error
}

func (e *connectionError) Error() string {
	if untrusted(e.err) {
		return fmt.Sprintf("%s shows no certificate that is trusted: %v: check the address, and which authorities are trusted", e.server, e.err)
	}
	return fmt.Sprintf("no answer from %s: %v: is a Fanmail server running there? \"fanmail serve\" starts one", e.server, e.err)
}

// untrusted reports whether the server showed a certificate that the client does not trust. Trying again does not help.
func untrusted(err error) bool {
	_, is := errors.AsType[*tls.CertificateVerificationError](err)
	return is
}

func (e *connectionError) Unwrap() error { return e.err }

// once makes a call, once.
func (c *Client) once(ctx context.Context, k call) error {
	target := c.base + k.path
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
	if k.content != "" {
		request.Header.Set("Content-Type", k.content)
	}
	if k.key != "" {
		request.Header.Set(IdempotencyKeyHeader, k.key)
	}
	if c.token != nil {
		token, err := c.token(ctx)
		if err != nil {
			return fmt.Errorf("token for %s: %w", c.base, err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return c.failed(ctx, err)
	}
	defer func() {
		// What is left is read, within reason, so that the connection can be used again.
		_, _ = io.CopyN(io.Discard, response.Body, maxProblemBytes)
		_ = response.Body.Close()
	}()
	if response.StatusCode/100 != 2 {
		return c.problem(response)
	}
	if k.read == nil {
		return nil
	}
	err = k.read(response.Header, response.Body)
	_, told := errors.AsType[*Problem](err) // at the end of an answer that had begun as a success
	switch {
	case err == nil, told:
		return err
	case ctx.Err() != nil, errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, new(net.Error)):
		return c.failed(ctx, err)
	default:
		return fmt.Errorf("%s does not answer as a Fanmail server does: %w: check the address", c.base, err)
	}
}

// failed returns the error for a call that was not answered: that of the context if it has ended.
func (c *Client) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", c.base, context.Cause(ctx))
	}
	if carried, ok := errors.AsType[*url.Error](err); ok {
		err = carried.Err // it repeats the URL
	}
	return &connectionError{server: c.base, err: err}
}

// problem reads an answer that is no success. One without a problem document does not come from Fanmail, but
// perhaps from a proxy before it.
func (c *Client) problem(response *http.Response) error {
	problem := &Problem{}
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	body, err := io.ReadAll(io.LimitReader(response.Body, maxProblemBytes))
	if err != nil || media != ContentProblem || json.Unmarshal(body, problem) != nil {
		problem = &Problem{
			Title:  "The answer is not Fanmail's",
			Detail: c.base + " does not answer as a Fanmail server does: check the address",
		}
	}
	problem.Status = response.StatusCode
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		problem.RetryAfter = time.Duration(seconds) * time.Second
	}
	return problem
}
