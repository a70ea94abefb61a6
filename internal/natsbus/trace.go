package natsbus

import (
	"net/textproto"

	"github.com/nats-io/nats.go"

	"github.com/fanmail/fanmail/pkg/event"
)

// The headers that an event.Trace travels in.
const (
	traceParentHeader = "traceparent"
	traceStateHeader  = "tracestate"
)

// newMsg returns a message with a trace in its header, if there is one.
func newMsg(subject string, data []byte, trace event.Trace) *nats.Msg {
	msg := &nats.Msg{Subject: subject, Data: data}
	if trace.Parent != "" {
		setHeader(msg, traceParentHeader, trace.Parent)
	}
	if trace.State != "" {
		setHeader(msg, traceStateHeader, trace.State)
	}
	return msg
}

func setHeader(msg *nats.Msg, name, value string) {
	if msg.Header == nil {
		msg.Header = make(nats.Header)
	}
	msg.Header[name] = []string{value}
}

// traceOf returns the trace that a header has.
func traceOf(h nats.Header) event.Trace {
	return event.Trace{Parent: value(h, traceParentHeader), State: value(h, traceStateHeader)}
}

// value returns a header's value. The names in NATS headers differ by case, and who sends logins may use a library that writes
// them as HTTP does.
func value(h nats.Header, name string) string {
	if v := h.Get(name); v != "" || len(h) == 0 {
		return v
	}
	return h.Get(textproto.CanonicalMIMEHeaderKey(name))
}
