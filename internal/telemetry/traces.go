package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	apitrace "go.opentelemetry.io/otel/trace"
)

// The environment variables of OpenTelemetry that this package reads. OpenTelemetry itself reads those of exporters, batches and limits.
const (
	disabledEnv       = "OTEL_SDK_DISABLED"
	exporterEnv       = "OTEL_TRACES_EXPORTER"
	endpointEnv       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	tracesEndpointEnv = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	protocolEnv       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	tracesProtocolEnv = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
)

// Traces records spans and exports them. Shutdown exports the remaining spans and stops exporting.
type Traces interface {
	apitrace.TracerProvider
	Shutdown(ctx context.Context) error
}

// TracesOptions configures NewTraces.
type TracesOptions struct {
	// Getenv returns the value of an environment variable, or "".
	Getenv func(name string) string
	// Service and Version are attributes of all spans, unless the environment sets others. Instance distinguishes this process from
	// other processes of the same service.
	Service, Version, Instance string
	// Writer receives the spans of the exporter "console".
	Writer io.Writer
	// Logger receives the errors of exporting, and one line with the exporter and the sampler.
	Logger zerolog.Logger
}

// NewTraces returns the Traces that the environment variables of OpenTelemetry select. It returns nil if they select no exporter; then no
// spans are recorded. It returns an error if a variable has an unknown value.
func NewTraces(ctx context.Context, opts TracesOptions) (Traces, error) {
	name, err := exporterName(opts.Getenv)
	if err != nil || name == exporterNone {
		return nil, err
	}
	sampler, err := newSampler(opts.Getenv)
	if err != nil {
		return nil, err
	}
	exporter, err := newExporter(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	// WithFromEnv is last, so the attributes from the environment replace the others.
	described, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", opts.Service), attribute.String("service.version", opts.Version),
		attribute.String("service.instance.id", opts.Instance),
	), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("describe this process to traces: %w", err)
	}
	logger := opts.Logger
	if name == exporterOTLP {
		logger = logger.With().Str("endpoint", endpoint(opts.Getenv)).Logger()
	}
	// The error handler of OpenTelemetry is global to the process.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { logger.Warn().Err(err).Msg("spans cannot be exported") }))
	logger.Info().Str("exporter", name).Str("sampler", sampler.Description()).Msg("spans are exported")
	return trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithSampler(sampler), trace.WithResource(described)), nil
}

// The names of exporters.
const (
	exporterNone    = "none"
	exporterOTLP    = "otlp"
	exporterConsole = "console"
)

// exporterName returns the exporter that the environment selects. If the environment names an endpoint and no exporter, it is OTLP.
func exporterName(getenv func(string) string) (string, error) {
	if strings.EqualFold(getenv(disabledEnv), "true") {
		return exporterNone, nil
	}
	switch name := getenv(exporterEnv); name {
	case exporterNone, exporterOTLP, exporterConsole:
		return name, nil
	case "":
		if getenv(endpointEnv) != "" || getenv(tracesEndpointEnv) != "" {
			return exporterOTLP, nil
		}
		return exporterNone, nil
	default:
		return "", fmt.Errorf("%s is %q: give %s, %s or %s", exporterEnv, name, exporterOTLP, exporterConsole, exporterNone)
	}
}

// endpoint returns the address that the environment names for spans, without a password, or "default" if it names none.
func endpoint(getenv func(string) string) string {
	text := cmp.Or(getenv(tracesEndpointEnv), getenv(endpointEnv))
	if text == "" {
		return "default"
	}
	parsed, err := url.Parse(text)
	if err != nil {
		return "unreadable" // it may hold a password anywhere
	}
	return parsed.Redacted()
}

func newExporter(ctx context.Context, name string, opts TracesOptions) (trace.SpanExporter, error) {
	if name == exporterConsole {
		return stdouttrace.New(stdouttrace.WithWriter(opts.Writer))
	}
	variable := tracesProtocolEnv
	if opts.Getenv(variable) == "" {
		variable = protocolEnv
	}
	switch protocol := opts.Getenv(variable); protocol {
	case "", "http/protobuf", "http/json":
		return otlptracehttp.New(ctx)
	case "grpc":
		return otlptracegrpc.New(ctx)
	default:
		return nil, fmt.Errorf("%s is %q: give http/protobuf, http/json or grpc", variable, protocol)
	}
}
