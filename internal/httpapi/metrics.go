package httpapi

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/fanmail/fanmail/internal/meter"
)

const (
	// noRoute is the route of requests that no path is for.
	noRoute = "none"
	// otherMethod stands for methods that a path does not have: who asks for them chooses their names.
	otherMethod = "other"
)

// classes are the status codes by their first digit, as a metric's label.
var classes = [...]string{1: "1xx", 2: "2xx", 3: "3xx", 4: "4xx", 5: "5xx"}

// metrics counts and measures requests.
type metrics struct {
	duration *prometheus.HistogramVec
	requests *prometheus.CounterVec
	inFlight prometheus.Gauge
	noRoom   prometheus.Counter
	// routes has what is counted of each method of a route, by its pattern.
	routes map[string]map[string]*endpointMetrics
}

// endpointMetrics is what is counted of one method of a route.
type endpointMetrics struct {
	duration prometheus.Observer
	classes  [len(classes)]prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	m := &metrics{
		duration: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fanmail_http_request_duration_seconds", Help: "How long requests took, from their header to the end of the answer.",
			Buckets: meter.Requests(),
		}, []string{"route", "method"}),
		requests: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "fanmail_http_requests_total", Help: "Requests that were answered, by the first digit of the status.",
		}, []string{"route", "method", "class"}),
		inFlight: factory.NewGauge(prometheus.GaugeOpts{Name: "fanmail_http_requests_in_flight", Help: "Requests that are being answered."}),
		noRoom: factory.NewCounter(prometheus.CounterOpts{
			Name: "fanmail_no_room_refusals_total", Help: "Requests with messages or edges that were refused, for the disk is nearly full.",
		}),
		routes: make(map[string]map[string]*endpointMetrics),
	}
	m.add(noRoute)
	return m
}

// add prepares what is counted of a route, so that a request needs no more than a look.
func (m *metrics) add(route string, methods ...string) {
	m.routes[route] = make(map[string]*endpointMetrics)
	for _, method := range append(methods, otherMethod) {
		e := &endpointMetrics{duration: m.duration.WithLabelValues(route, method)}
		for class, label := range classes {
			if class > 1 { // there are no answers of the first
				e.classes[class] = m.requests.WithLabelValues(route, method, label)
			}
		}
		m.routes[route][method] = e
	}
}

// count counts a request that was answered with a status. A HEAD counts as a GET.
func (m *metrics) count(pattern, method string, status int, took time.Duration) {
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
	e.duration.Observe(took.Seconds())
	if class := status / 100; class > 1 && class < len(classes) {
		e.classes[class].Inc()
	}
}
