package fanout

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/fanmail/fanmail/internal/tracing"
	"github.com/fanmail/fanmail/pkg/event"
)

// consumer marks the spans of work that came over the bus.
var consumer = trace.WithSpanKind(trace.SpanKindConsumer)

// trace tells the tasks of a message which trace they belong to: that of ctx, or where there is none that of the event.
func (r *route) trace(ctx context.Context, given event.Trace) {
	if own := tracing.Of(ctx); own.Parent != "" {
		given = own
	}
	for i := range r.tasks {
		r.tasks[i].Trace = given
	}
	if r.span.IsRecording() && len(r.tasks) > 0 {
		first := r.tasks[0]
		r.span.SetAttributes(
			tracing.MessageID.String(first.ID.String()), tracing.From.String(string(first.From)),
			tracing.Lane.String(string(first.Lane)), tracing.Tasks.Int(len(r.tasks)),
		)
	}
}

// endAll ends the spans of routes.
func endAll(routes []route, err error) {
	for _, r := range routes {
		if r.span.Span != nil {
			r.span.Done(err)
		}
	}
}

// begin begins the span of a batch: in the trace of its message, or, if it delivers several, in one that links to theirs.
func (d *Deliverer) begin(ctx context.Context, deliveries []event.Delivery) (context.Context, tracing.Span) {
	if !d.opts.Tracer.On() {
		return d.opts.Tracer.Start(ctx, "")
	}
	traces := make([]event.Trace, len(deliveries))
	for i, delivery := range deliveries {
		traces[i] = delivery.Trace
	}
	ctx, how := tracing.Together(ctx, traces)
	ctx, span := d.opts.Tracer.Start(ctx, "deliver", append(how, consumer)...)
	if span.IsRecording() {
		span.SetAttributes(tracing.Subject.String(deliveries[0].Subject), tracing.Tasks.Int(len(deliveries)))
	}
	return ctx, span
}

// tell tells the span of a batch what it delivers.
func (b *batch) tell(ctx context.Context) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() || len(b.jobs) == 0 {
		return
	}
	ids := make([]string, min(len(b.jobs), tracing.ListMax))
	for i := range ids {
		ids[i] = b.jobs[i].task.ID.String()
	}
	span.SetAttributes(
		tracing.Lane.String(string(b.jobs[0].task.Lane)), tracing.Partition.Int(b.partition),
		tracing.Messages.Int(len(b.jobs)), tracing.MessageIDs.StringSlice(ids),
	)
}

// tellCounts tells the span of a batch what it has delivered.
func (b *batch) tellCounts(ctx context.Context) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	var delivered, skipped int64
	for _, j := range b.moved {
		delivered, skipped = delivered+j.delivered, skipped+j.skipped
	}
	span.SetAttributes(tracing.Delivered.Int64(delivered), tracing.Skipped.Int64(skipped))
}

// size returns how many entries a load has.
func (l *load) size() (entries int) {
	for _, a := range l.appends {
		entries += len(a.Entries)
	}
	return entries
}
