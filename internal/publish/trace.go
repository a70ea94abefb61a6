package publish

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/event"
)

// producer marks a span that consumers of events continue.
var producer = trace.WithSpanKind(trace.SpanKindProducer)

// trace sets the trace of each event. A single event continues the trace of ctx. Each of several events starts a trace, so that no trace
// grows as large as a batch. Its span links to the span of ctx.
func (s *Service) trace(ctx context.Context, span tracing.Work, events []event.Published) {
	if !s.opts.Tracer.On() {
		return
	}
	own := tracing.Of(ctx)
	if span.IsRecording() {
		span.SetAttributes(tracing.Messages.Int(len(events)), tracing.MessageIDs.StringSlice(ids(events)))
	}
	for i := range events {
		events[i].Trace = own
		if len(events) == 1 || !span.IsRecording() {
			continue
		}
		from, message := s.opts.Tracer.Start(ctx, "message", producer, trace.WithNewRoot(), trace.WithLinks(trace.LinkFromContext(ctx)))
		message.SetAttributes(tracing.MessageID.String(events[i].ID.String()), tracing.From.String(string(events[i].From)))
		message.End()
		events[i].Trace = tracing.Of(from)
	}
}

// ids returns the ids of the events' messages, at most tracing.ListMax.
func ids(events []event.Published) []string {
	listed := make([]string, min(len(events), tracing.ListMax))
	for i := range listed {
		listed[i] = events[i].ID.String()
	}
	return listed
}
