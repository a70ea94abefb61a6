package app_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/pkg/client"
)

// The ids of the traces that the requests belong to.
const (
	publishing = "11111111111111111111111111111111"
	returning  = "22222222222222222222222222222222"
	batching   = "33333333333333333333333333333333"
	caller     = "aaaaaaaaaaaaaaaa"
)

func header(traceID string) http.Header {
	return http.Header{"Traceparent": {"00-" + traceID + "-" + caller + "-01"}}
}

// TestTraceOfAMessage follows a message from its request over the bus into the inbox of an active user, and later into the inbox of
// a dormant user who returns.
func TestTraceOfAMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, traced)
	w.see(t, "ann")
	w.spans.Reset()

	var receipt client.Receipt
	w.ask(t, http.MethodPost, "/v1/messages", `{"from":"star","to":["ann","bob"],"body":"`+marker+`"}`, http.StatusAccepted, &receipt, header(publishing))
	w.done(t, receipt.ID)
	var login client.Login
	w.ask(t, http.MethodPost, "/v1/users/bob/login", "", http.StatusOK, &login, header(returning))
	require.EqualValues(t, 1, login.Recovered)
	spans := w.await(t, func(s spans) bool {
		return s.find("rehydrate") != nil && s.find("POST /v1/users/{user}/login") != nil && len(s.named("deliver")) == 1 && len(s.named("route")) == 1
	})
	t.Logf("the spans of message %s:\n%s", receipt.ID, spans)

	id := receipt.ID.String()
	request := spans.one(t, "POST /v1/messages")
	require.Equal(t, publishing, request.SpanContext.TraceID().String())
	require.Equal(t, caller, request.Parent.SpanID().String())
	require.Equal(t, trace.SpanKindServer, request.SpanKind)
	require.Equal(t, id, value(request, "fanmail.message_id"))
	require.Equal(t, "202", value(request, "http.response.status_code"))

	publish := spans.child(t, request, "publish")
	spans.child(t, publish, "store messages")
	emit := spans.child(t, publish, "emit published")
	require.Equal(t, trace.SpanKindProducer, emit.SpanKind)
	require.Equal(t, "["+`"`+id+`"`+"]", value(emit, "fanmail.message_ids"))

	route := spans.child(t, emit, "route")
	require.True(t, route.Parent.IsRemote(), "over the bus")
	require.Equal(t, trace.SpanKindConsumer, route.SpanKind)
	require.Equal(t, id, value(route, "fanmail.message_id"))
	require.Equal(t, "direct", value(route, "fanmail.lane"))

	deliver := spans.child(t, route, "deliver")
	require.Equal(t, `["`+id+`"]`, value(deliver, "fanmail.message_ids"))
	require.Equal(t, "1", value(deliver, "fanmail.delivered"))
	require.Equal(t, "1", value(deliver, "fanmail.skipped"))
	require.Equal(t, "1", value(spans.child(t, deliver, "append"), "fanmail.entries"))

	back := spans.one(t, "POST /v1/users/{user}/login")
	require.Equal(t, returning, back.SpanContext.TraceID().String())
	rehydrate := spans.child(t, back, "rehydrate")
	require.Equal(t, "bob", value(rehydrate, "fanmail.user"))
	require.Equal(t, "1", value(rehydrate, "fanmail.recovered"))
	appended := spans.child(t, rehydrate, "append")
	require.Equal(t, `["`+id+`"]`, value(appended, "fanmail.message_ids"), "which is how the message is found here")
	require.NotContains(t, spans.String(), marker)
}

// TestTraceOfABatch delivers several messages with one append. The span of the append belongs to none of their traces and links to
// all.
func TestTraceOfABatch(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w := newWorld(t, traced, func(o *app.Options) { o.Wrap = behind(gate) })
	w.see(t, "ann")
	w.spans.Reset()

	line := `{"from":"star","to":["ann"],"body":"` + marker + `"}` + "\n"
	h := header(batching)
	h.Set("Content-Type", client.ContentNDJSON)
	w.ask(t, http.MethodPost, "/v1/messages:batch", strings.Repeat(line, 3), http.StatusOK, nil, h)
	close(gate) // all events are on the bus, which may hand them out in more than one batch
	got := w.await(t, func(s spans) bool {
		return len(s.named("route")) == 3 && len(s.causes("deliver")) == 3 && len(s.named("append")) == len(s.named("deliver")) && s.find("POST /v1/messages:batch") != nil
	})
	t.Logf("the spans of three messages:\n%s", got)

	emit := got.one(t, "emit published")
	require.Equal(t, batching, emit.SpanContext.TraceID().String())
	for _, deliver := range got.named("deliver") {
		require.Equal(t, len(deliver.Links) == 0, deliver.Parent.IsValid())
		count := strconv.Itoa(max(1, len(deliver.Links)))
		require.Equal(t, count, value(&deliver, "fanmail.messages"))
		appended := got.child(t, &deliver, "append")
		require.Equal(t, count, value(appended, "fanmail.entries"))
		require.Equal(t, "1", value(appended, "fanmail.owners"))
	}
	for i, route := range got.named("route") {
		own := got.parent(route)
		require.NotNil(t, own)
		require.Equal(t, "message", own.Name)
		require.False(t, own.Parent.IsValid(), "each message has a trace of its own")
		require.Equal(t, emit.SpanContext.SpanID(), own.Links[0].SpanContext.SpanID())
		require.Contains(t, got.causes("deliver"), route.SpanContext.SpanID(), "route %d", i)
	}
}

// TestTraceThatIsNotSampled checks that nothing is recorded for a request whose caller does not record it, before and behind the
// bus.
func TestTraceThatIsNotSampled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, traced)
	w.see(t, "ann")
	w.spans.Reset()
	var receipt client.Receipt
	w.ask(t, http.MethodPost, "/v1/messages", `{"from":"star","to":["ann"],"body":"x"}`, http.StatusAccepted, &receipt,
		http.Header{"Traceparent": {"00-" + publishing + "-" + caller + "-00"}})
	w.done(t, receipt.ID)
	require.Empty(t, w.await(t, func(spans) bool { return true }).named("deliver"))
}

// behind withholds published events until a gate is open.
func behind(gate <-chan struct{}) func(app.Parts) app.Parts {
	return func(p app.Parts) app.Parts {
		p.Bus = gated{p.Bus, gate}
		return p
	}
}

// gated is a bus whose FetchPublished waits for a gate.
type gated struct {
	bus.Bus
	gate <-chan struct{}
}

func (g gated) FetchPublished(ctx context.Context, limit int) ([]bus.Received, error) {
	select {
	case <-g.gate:
		return g.Bus.FetchPublished(ctx, limit)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// traced records all spans, unless the caller's trace says otherwise.
func traced(o *app.Options) {
	o.Traces = sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())))
}

// spans are spans that have ended.
type spans []tracetest.SpanStub

// causes returns the spans to which the spans with a name link. One of a single message has its cause for a parent instead.
func (s spans) causes(name string) (causes []trace.SpanID) {
	for _, one := range s.named(name) {
		if len(one.Links) == 0 {
			causes = append(causes, one.Parent.SpanID())
		}
		for _, link := range one.Links {
			causes = append(causes, link.SpanContext.SpanID())
		}
	}
	return causes
}

func (s spans) named(name string) (found spans) {
	for _, one := range s {
		if one.Name == name {
			found = append(found, one)
		}
	}
	return found
}

func (s spans) find(name string) *tracetest.SpanStub {
	if found := s.named(name); len(found) > 0 {
		return &found[0]
	}
	return nil
}

func (s spans) one(t *testing.T, name string) *tracetest.SpanStub {
	t.Helper()
	found := s.named(name)
	require.Len(t, found, 1, name)
	return &found[0]
}

// child returns the only child of a span with this name.
func (s spans) child(t *testing.T, parent *tracetest.SpanStub, name string) *tracetest.SpanStub {
	t.Helper()
	found := slices.DeleteFunc(s.named(name), func(one tracetest.SpanStub) bool {
		return one.Parent.SpanID() != parent.SpanContext.SpanID() || one.Parent.TraceID() != parent.SpanContext.TraceID()
	})
	require.Len(t, found, 1, "%s within %s", name, parent.Name)
	return &found[0]
}

func (s spans) parent(of tracetest.SpanStub) *tracetest.SpanStub {
	for i := range s {
		if s[i].SpanContext.SpanID() == of.Parent.SpanID() {
			return &s[i]
		}
	}
	return nil
}

// String returns the spans as one tree per trace, in the order of their beginnings.
func (s spans) String() string {
	sorted := slices.Clone(s)
	slices.SortStableFunc(sorted, func(x, y tracetest.SpanStub) int {
		return cmp.Compare(x.StartTime.UnixNano(), y.StartTime.UnixNano())
	})
	var b strings.Builder
	for _, one := range sorted {
		if sorted.parent(one) == nil {
			fmt.Fprintf(&b, "trace %s\n", one.SpanContext.TraceID())
			sorted.write(&b, one, "  ")
		}
	}
	return b.String()
}

func (s spans) write(b *strings.Builder, one tracetest.SpanStub, indent string) {
	fmt.Fprintf(b, "%s%s %s (%s, %v)", indent, one.SpanContext.SpanID(), one.Name, one.SpanKind, one.EndTime.Sub(one.StartTime).Round(time.Microsecond))
	for _, a := range one.Attributes {
		fmt.Fprintf(b, " %s=%s", a.Key, a.Value.String())
	}
	for _, l := range one.Links {
		fmt.Fprintf(b, " -> %s/%s", l.SpanContext.TraceID(), l.SpanContext.SpanID())
	}
	b.WriteString("\n")
	for _, child := range s {
		if child.Parent.SpanID() == one.SpanContext.SpanID() {
			s.write(b, child, indent+"  ")
		}
	}
}

// value returns an attribute as text.
func value(one *tracetest.SpanStub, key attribute.Key) string {
	for _, a := range one.Attributes {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}
