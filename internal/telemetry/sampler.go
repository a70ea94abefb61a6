package telemetry

import (
	"fmt"
	"strconv"

	"go.opentelemetry.io/otel/sdk/trace"
)

const (
	samplerEnv = "OTEL_TRACES_SAMPLER"
	ratioEnv   = "OTEL_TRACES_SAMPLER_ARG"
	// defaultRatio is the share of recorded traces if the environment names no sampler. One trace in a hundred is enough for a server
	// that delivers thousands of messages a second.
	defaultRatio = 0.01
)

// newSampler returns the sampler that the environment names, or an error if the name is unknown.
func newSampler(getenv func(string) string) (trace.Sampler, error) {
	switch name := getenv(samplerEnv); name {
	case "":
		return parentBased(trace.TraceIDRatioBased(defaultRatio)), nil
	case "always_on":
		return trace.AlwaysSample(), nil
	case "always_off":
		return trace.NeverSample(), nil
	case "parentbased_always_on":
		return parentBased(trace.AlwaysSample()), nil
	case "parentbased_always_off":
		return parentBased(trace.NeverSample()), nil
	case "traceidratio", "parentbased_traceidratio":
		ratio, err := sampleRatio(getenv(ratioEnv))
		if err != nil {
			return nil, err
		}
		if name == "traceidratio" {
			return trace.TraceIDRatioBased(ratio), nil
		}
		return parentBased(trace.TraceIDRatioBased(ratio)), nil
	default:
		return nil, fmt.Errorf("%s is %q: give always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off or "+
			"parentbased_traceidratio", samplerEnv, name)
	}
}

// sampleRatio parses a share of traces. An empty text means all traces, as OpenTelemetry specifies.
func sampleRatio(text string) (float64, error) {
	if text == "" {
		return 1, nil
	}
	ratio, err := strconv.ParseFloat(text, 64)
	if err != nil || !(ratio >= 0 && ratio <= 1) {
		return 0, fmt.Errorf("%s is %q: give a share from 0 to 1, such as 0.01", ratioEnv, text)
	}
	return ratio, nil
}

// parentBased returns a sampler that follows the decision of the parent span. For a span without a parent, root decides.
func parentBased(root trace.Sampler) trace.Sampler { return trace.ParentBased(linked{root}) }

// linked samples a trace whose first span links to a sampled trace. So a batch of several messages is recorded if one of the messages
// is. For all other traces, Sampler decides.
type linked struct{ trace.Sampler }

// ShouldSample implements trace.Sampler.
func (l linked) ShouldSample(p trace.SamplingParameters) trace.SamplingResult {
	for _, link := range p.Links {
		if link.SpanContext.IsSampled() {
			return trace.SamplingResult{Decision: trace.RecordAndSample}
		}
	}
	return l.Sampler.ShouldSample(p)
}
