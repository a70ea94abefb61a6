// Package tracing records the work of Fanmail's parts as spans, through the API of OpenTelemetry. Package telemetry chooses the exporter.
// The zero Tracer records nothing and costs nothing.
//
// # What belongs to which trace
//
// One trace has a request, its message, the routing of the message, and the batches that deliver this message alone. The trace context
// crosses the bus. A batch that delivers several messages begins a trace of its own, which links to theirs. So does each message of a batch
// request. Attributes are ids and counts, never what a message says.
package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/fanmail/fanmail/pkg/event"
)

// Keys of attributes.
const (
	// MessageID is the id of the message that a span is about, MessageIDs those of the messages, at most ListMax.
	MessageID  = attribute.Key("fanmail.message_id")
	MessageIDs = attribute.Key("fanmail.message_ids")
	// Messages, Owners, Tasks and Entries are counts.
	Messages = attribute.Key("fanmail.messages")
	Owners   = attribute.Key("fanmail.owners")
	Tasks    = attribute.Key("fanmail.tasks")
	Entries  = attribute.Key("fanmail.entries")
	// Delivered, Skipped and Recovered count deliveries.
	Delivered = attribute.Key("fanmail.delivered")
	Skipped   = attribute.Key("fanmail.skipped")
	Recovered = attribute.Key("fanmail.recovered")
	// From is the author of a span's message. User is any other user of the span.
	From = attribute.Key("fanmail.from")
	User = attribute.Key("fanmail.user")
	// Lane and Partition are those of a task.
	Lane      = attribute.Key("fanmail.lane")
	Partition = attribute.Key("fanmail.partition")
	// RequestID is the id of a request, as its answer has it.
	RequestID = attribute.Key("fanmail.request_id")
	// Subject says where something was sent to, or came from.
	Subject = attribute.Key("messaging.destination.name")
)

// ListMax is how many ids, and how many links, a span has at most, however many messages it is about.
const ListMax = 64

// scope is what spans are recorded under.
const scope = "github.com/fanmail/fanmail"

// Tracer starts spans. The zero Tracer starts spans that are not recorded.
type Tracer struct{ tracer trace.Tracer }

// New returns a Tracer whose spans go to a provider. Of nil it returns the zero Tracer.
func New(provider trace.TracerProvider) Tracer {
	if provider == nil {
		return Tracer{}
	}
	return Tracer{provider.Tracer(scope)}
}

// On reports whether spans may be recorded.
func (t Tracer) On() bool { return t.tracer != nil }

// Start starts a span within that of ctx, and returns ctx with it. It has to be ended. Attributes are best set where the span
// IsRecording: then they cost nothing where it does not.
func (t Tracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, Work) {
	if t.tracer == nil {
		return ctx, off
	}
	ctx, span := t.tracer.Start(ctx, name, opts...)
	return ctx, Work{span}
}

// Work is work that takes time, recorded as a span of OpenTelemetry.
type Work struct{ trace.Span }

// off is a span that is not recorded.
var off = Work{noop.Span{}}

// Done ends the span, as failed unless err is nil.
func (s Work) Done(err error) {
	if err != nil {
		s.SetStatus(codes.Error, err.Error())
	}
	s.End()
}

// Of returns the trace, and the place in it, for what ctx's span asks others to do. It is zero where ctx has no span.
func Of(ctx context.Context) event.Trace {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return event.Trace{}
	}
	var t event.Trace
	format.Inject(ctx, carrier{&t})
	return t
}

// Within returns ctx within what a Trace tells of, if that can be read: the parent of spans that are started next.
func Within(ctx context.Context, t event.Trace) context.Context {
	if t.Parent == "" {
		return ctx
	}
	read := t // so that nothing is allocated where there is no trace
	return format.Extract(ctx, carrier{&read})
}
