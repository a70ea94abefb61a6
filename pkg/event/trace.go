package event

// Trace identifies the trace that an event belongs to: the values of the headers traceparent and tracestate of the W3C Trace Context.
// It travels in the event's headers, never in its payload. The zero Trace means no trace. Another system may have sent the headers, so
// the values may be any text.
type Trace struct {
	Parent, State string
}
