package httpapi_test

import (
	"crypto/rand"
	"net/http"
	"testing"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/httpapi"
)

// BenchmarkPublish measures one POST /v1/messages without the network, on a store in memory.
func BenchmarkPublish(b *testing.B) {
	w := newWorld(b, settings{random: rand.Reader, options: func(o *httpapi.Options) { o.Logger = zerolog.Nop() }})
	body := draft(`"body":"What a beautiful day it is.","content_type":"text/plain"`)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			w.must(b, http.StatusAccepted, http.MethodPost, "/v1/messages", body)
		}
	})
}
