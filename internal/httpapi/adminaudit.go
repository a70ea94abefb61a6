package httpapi

import (
	"bytes"
	"fmt"
	"net/http"

	"github.com/fanmail/fanmail/internal/audit"
	"github.com/fanmail/fanmail/pkg/client"
)

// audit answers with one line for each event of an audit, as soon as it happens. The audit ends when the client disconnects.
func (s *server) audit(w *response, r *http.Request) error {
	request, err := auditRequest(w, r)
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

// auditRequest reads the request from the body. Without a body, it is for all users.
func auditRequest(w *response, r *http.Request) (audit.Request, error) {
	var body client.AuditOptions
	if r.ContentLength != 0 {
		if err := readObject(w, r, smallBytes, &body); err != nil {
			return audit.Request{}, err
		}
	}
	request := audit.Request{User: body.User, Sample: body.Sample, Repair: body.Repair}
	return request, request.Validate()
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
