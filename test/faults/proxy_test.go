//go:build long && mongodb

package faults_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/test/testenv"
)

// network stands between Fanmail and its database server.
type network struct {
	t     *testing.T
	proxy *toxiproxy.Proxy
}

// newNetwork returns a network to a server that is gone when the test ends.
func newNetwork(t *testing.T, uri string) *network {
	t.Helper()
	free := testenv.NewSite(t, nil).Addr // which nobody takes while the network is down
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	n := &network{t: t, proxy: toxiproxy.NewProxy(server, t.Name(), free, host(t, uri))}
	n.up()
	t.Cleanup(func() {
		n.calm()
		n.down()
	})
	return n
}

// host returns the server of a connection string.
func host(t *testing.T, uri string) string {
	t.Helper()
	o := options.Client().ApplyURI(uri)
	require.NoError(t, o.Validate())
	return o.Hosts[0]
}

// uri is where clients find the server.
func (n *network) uri() string { return "mongodb://" + n.proxy.Listen + "/?directConnection=true" }

// up lets connections through.
func (n *network) up() {
	n.t.Helper()
	require.NoError(n.t, n.proxy.Start())
}

// down breaks all connections, and has new ones refused.
func (n *network) down() { n.proxy.Stop() }

// toxic is something that is wrong with the network, in the words of toxiproxy.
type toxic struct {
	Type string `json:"type"`
	// Stream is "upstream" for what is sent to the server, and "downstream" for what it replies.
	Stream     string         `json:"stream"`
	Attributes map[string]int `json:"attributes"`
}

// suffer makes the network bad, in addition to how it is already.
func (n *network) suffer(toxics ...toxic) {
	n.t.Helper()
	for _, toxic := range toxics {
		text, err := json.Marshal(toxic)
		require.NoError(n.t, err)
		_, err = n.proxy.Toxics.AddToxicJson(strings.NewReader(string(text)))
		require.NoError(n.t, err)
	}
}

// calm makes the network good again.
func (n *network) calm() { n.proxy.Toxics.ResetToxics(n.t.Context()) }

// latency delays what goes in a direction by so many milliseconds, up to jitter more or less.
func latency(stream string, milliseconds, jitter int) toxic {
	return toxic{"latency", stream, map[string]int{"latency": milliseconds, "jitter": jitter}}
}

// bandwidth lets so many kilobytes a second through in a direction.
func bandwidth(stream string, rate int) toxic {
	return toxic{"bandwidth", stream, map[string]int{"rate": rate}}
}

// reset answers with a reset whatever is sent.
func reset() toxic { return toxic{"reset_peer", "upstream", map[string]int{"timeout": 0}} }

// blackHole lets vanish whatever goes in a direction, and keeps connections open.
func blackHole(stream string) toxic { return toxic{"timeout", stream, map[string]int{"timeout": 0}} }
