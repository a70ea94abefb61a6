package httpapi

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// audit answers with one line for each event of an audit, as soon as it happens. The audit ends when the client disconnects.
func (s *server) audit(w *response, r *http.Request) error {
	request, err := auditRequest(w, r)
	if err == nil {
		err = request.Validate()
	}
	if err != nil {
		return err
	}
	stream := newStream(w, r.Body, s.opts.IdleTimeout)
	defer stream.close()
	w.Header().Set("Content-Type", client.ContentNDJSON)
	summary, err := s.Audit.Audit(r.Context(), request, func(e audit.Event) error {
		return writeLine(stream, auditLine(e))
	})
	switch {
	case err == nil:
		_ = writeLine(stream, client.AuditLine{Summary: &summary}) // an error means that the client is gone
	case w.status == 0:
		return err
	default:
		// The answer has begun, so its last line holds the error that ended the audit.
		_ = writeLine(stream, client.AuditLine{Error: s.problem(w, err)})
	}
	return nil
}

// auditRequest reads the request from the body. If the body is empty, it reads the query.
func auditRequest(w *response, r *http.Request) (audit.Request, error) {
	var body client.AuditOptions
	query := r.URL.Query()
	switch {
	case r.ContentLength == 0:
		return auditQuery(query)
	case len(query) > 0:
		return audit.Request{}, refuse(client.ProblemInvalid, "", "there is a body and a query: say what to audit in one of them")
	}
	if err := readObject(w, r, smallBytes, &body); err != nil {
		return audit.Request{}, err
	}
	return audit.Request{User: body.User, Sample: body.Sample, Repair: body.Repair}, nil
}

func auditQuery(query url.Values) (audit.Request, error) {
	request := audit.Request{User: message.UserID(query.Get("user"))}
	if query.Has("user") {
		if err := request.User.Validate("user"); err != nil {
			return request, err
		}
	}
	if text := query.Get("sample"); query.Has("sample") {
		sample, err := strconv.Atoi(text)
		if err != nil || sample < 1 {
			return request, &message.InvalidError{
				Field: "sample", Reason: fmt.Sprintf("is %q: give a whole number from 1 to %d, or leave it out for all users", shorten(text), audit.MaxSample),
			}
		}
		request.Sample = sample
	}
	repair := query.Get("repair")
	if query.Has("repair") && repair != "true" && repair != "false" {
		return request, &message.InvalidError{Field: "repair", Reason: "is neither true nor false"}
	}
	request.Repair = repair == "true"
	return request, nil
}

// writeLine writes one line of an answer and flushes it.
func writeLine(to *stream, line client.AuditLine) error {
	var b bytes.Buffer
	if err := newEncoder(&b).Encode(line); err != nil {
		return err
	}
	if _, err := to.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

func auditLine(e audit.Event) client.AuditLine {
	if e.Progress != nil {
		return client.AuditLine{Progress: e.Progress}
	}
	f := e.Finding
	finding := &client.Finding{
		Kind: f.Kind, User: f.User, Message: f.Message, From: f.From,
		Detail: f.Detail, Repaired: f.Repaired, Note: f.Note,
	}
	if f.Placed {
		finding.Bucket, finding.Slot = &f.At.Sequence, &f.At.Slot
	}
	return client.AuditLine{Finding: finding}
}
