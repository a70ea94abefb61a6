package natsbus

import (
	"net/textproto"

	"github.com/nats-io/nats.go"

	"github.com/fanmail/fanmail/pkg/event"
)

// The headers of an event.Trace.
const (
	traceParentHeader = "traceparent"
	traceStateHeader  = "tracestate"
)

// newMsg returns a message with the trace in its headers.
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

// traceOf returns the trace in a header.
func traceOf(h nats.Header) event.Trace {
	return event.Trace{Parent: value(h, traceParentHeader), State: value(h, traceStateHeader)}
}

// value returns the value of a header. It also finds the name in the capitalization of HTTP, for example Traceparent. Names in NATS headers
// are case-sensitive, but a library may write them like HTTP headers.
func value(h nats.Header, name string) string {
	if v := h.Get(name); v != "" || len(h) == 0 {
		return v
	}
	return h.Get(textproto.CanonicalMIMEHeaderKey(name))
}
