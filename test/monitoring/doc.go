// Package monitoring holds what operators watch Fanmail with to what running processes really tell: the table of metrics, the rules of
// Prometheus, the dashboard of Grafana, and the runbook.
package monitoring
