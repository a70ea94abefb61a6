package event

// Trace tells which trace the work that an event asks for belongs to: the values of the headers traceparent and tracestate of the
// W3C's Trace Context. It travels in the event's headers and never in its payload, which is the same with and without it. The
// zero Trace belongs to none. Another system sent it, so it may hold any text.
type Trace struct {
	Parent, State string
}
