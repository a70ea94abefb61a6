package httpapi

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/fanmail/fanmail/internal/meter"
)

const (
	// noRoute is the route of requests for unknown paths.
	noRoute = "none"
	// otherMethod stands for all methods that a path does not have. Clients choose their names, so they must not become labels.
	otherMethod = "other"
)

// classes are the values of a metric's label: the first digit of the status.
var classes = [...]string{1: "1xx", 2: "2xx", 3: "3xx", 4: "4xx", 5: "5xx"}

// metrics counts and measures requests.
type metrics struct {
	duration *prometheus.HistogramVec
	requests *prometheus.CounterVec
	inFlight prometheus.Gauge
	noRoom   prometheus.Counter
	// cutStreams counts streams whose client did not read, and streamBytes what streams have sent.
	cutStreams, streamBytes prometheus.Counter
	// routes has the metrics of each pattern and method.
	routes map[string]map[string]*endpointMetrics
}

// endpointMetrics are the metrics of one method of a route.
type endpointMetrics struct {
	duration prometheus.Observer
	classes  [len(classes)]prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	m := &metrics{
		duration: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fanmail_http_request_duration_seconds", Help: "Time from the header of a request to the end of its answer.",
			Buckets: meter.Requests(),
		}, []string{"route", "method"}),
		requests: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "fanmail_http_requests_total", Help: "Answered requests, by the first digit of the status.",
		}, []string{"route", "method", "class"}),
		inFlight: factory.NewGauge(prometheus.GaugeOpts{Name: "fanmail_http_requests_in_flight", Help: "Requests in progress."}),
		noRoom: factory.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_no_room_refusals_total", Help: "Requests with messages or edges that were refused because the disk is nearly full.",
		}),
		cutStreams: factory.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_streams_cut_total", Help: "Streams that were ended because their client did not read within stream.write_timeout.",
		}),
		streamBytes: factory.NewCounter(prometheus.CounterOpts{Name: "fanmail_stream_bytes_total", Help: "Bytes of the frames that were sent as events."}),
		routes:      make(map[string]map[string]*endpointMetrics),
	}
	m.add(noRoute)
	return m
}

// add creates the metrics of a route, so that a request only looks them up.
func (m *metrics) add(route string, methods ...string) {
	m.routes[route] = make(map[string]*endpointMetrics)
	for _, method := range append(methods, otherMethod) {
		e := &endpointMetrics{duration: m.duration.WithLabelValues(route, method)}
		for class, label := range classes {
			if class > 1 { // the server sends no 1xx answers
				e.classes[class] = m.requests.WithLabelValues(route, method, label)
			}
		}
		m.routes[route][method] = e
	}
}

// count counts and measures an answered request. A HEAD counts as a GET. A stream is as long as its client likes, so it is not measured.
func (m *metrics) count(pattern, method string, status int, took time.Duration, stream bool) {
	route, ok := m.routes[pattern]
	if !ok {
		route = m.routes[noRoute]
	}
	if method == http.MethodHead {
		method = http.MethodGet
	}
	e, ok := route[method]
	if !ok {
		e = route[otherMethod]
	}
	if !stream {
		e.duration.Observe(took.Seconds())
	}
	if class := status / 100; class > 1 && class < len(classes) {
		e.classes[class].Inc()
	}
}
