package deploy_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"
)

const natsPassword = "a-long-random-password"

// TestNATSCluster runs the three servers of the example, and Fanmail on them.
func TestNATSCluster(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, os.CopyFS(folder, os.DirFS(deploy+"/examples/nats-cluster")))
	shared := strings.ReplaceAll(read(t, "examples", "nats-cluster", "cluster.conf"), "/etc/nats", folder)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "cluster.conf"), []byte(shared), 0o600))
	certify(t, folder)
	grant(t, folder)
	cluster := startCluster(t, folder)

	var urls []string
	for _, s := range cluster {
		urls = append(urls, "tls://fanmail:"+natsPassword+"@"+s.Addr().String())
	}
	ca := filepath.Join(folder, "ca.pem")
	_, err := nats.Connect(strings.ReplaceAll(urls[0], natsPassword, "wrong"), nats.RootCAs(ca))
	require.ErrorIs(t, err, nats.ErrAuthorization)
	_, err = nats.Connect("nats://" + cluster[0].Addr().String())
	require.Error(t, err, "the server is reached without an account")

	fanmail, _ := serveFrom(t, t.TempDir(), "FANMAIL_NATS_URL="+strings.Join(urls, ","), "FANMAIL_NATS_REPLICAS=3", "FANMAIL_NATS_CA_FILE="+ca)
	fanmail("login", "ben")
	fanmail("publish", "--from", "ann", "--to", "ben", "--body", "three servers", "--wait")

	nc, err := nats.Connect(strings.Join(urls, ","), nats.RootCAs(ca))
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	streams := 0
	for info := range js.ListStreams(t.Context()).Info() {
		streams++
		require.Equal(t, 3, info.Config.Replicas, info.Config.Name)
		require.Len(t, info.Cluster.Replicas, 2, info.Config.Name)
	}
	require.Equal(t, 4, streams)

	cluster[0].Shutdown()
	cluster[0].WaitForShutdown()
	fanmail("publish", "--from", "ann", "--to", "ben", "--body", "two servers", "--wait")
	inbox := fanmail("inbox", "ben", "--json")
	require.Contains(t, inbox, "three servers")
	require.Contains(t, inbox, "two servers")
}

// startCluster starts the servers on free ports of this host, where their configurations have hosts of their own, and waits until
// JetStream has a leader.
func startCluster(t *testing.T, folder string) []*server.Server {
	t.Helper()
	cluster := make([]*server.Server, 3)
	routes := freeRoutes(t, len(cluster)) // servers want to know each other before they are there
	for i := range cluster {
		name := fmt.Sprintf("nats-%d", i+1)
		opts, err := server.ProcessConfigFile(filepath.Join(folder, name+".conf"))
		require.NoError(t, err)
		require.Len(t, opts.Routes, len(cluster))
		require.Equal(t, name, opts.ServerName)
		opts.Host, opts.Port, opts.HTTPPort = "127.0.0.1", server.RANDOM_PORT, 0
		opts.Cluster.Host, opts.Cluster.Port = "127.0.0.1", routes[i].port
		opts.Routes = []*url.URL{routes[0].url, routes[1].url, routes[2].url}
		opts.StoreDir, opts.NoSigs, opts.NoLog = t.TempDir(), true, true
		cluster[i], err = server.NewServer(opts)
		require.NoError(t, err)
		cluster[i].Start()
		t.Cleanup(func() { cluster[i].Shutdown(); cluster[i].WaitForShutdown() })
	}
	require.Eventually(t, func() bool {
		led := 0
		for _, s := range cluster {
			if s.ReadyForConnections(tick) && s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == len(cluster) {
				led++
			}
		}
		return led == 1
	}, patience, tick)
	return cluster
}

// route is where a server waits for the others.
type route struct {
	port int
	url  *url.URL
}

func freeRoutes(t *testing.T, n int) []route {
	t.Helper()
	free := make([]route, n)
	for i := range free {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { require.NoError(t, listener.Close()) }()
		address := listener.Addr().(*net.TCPAddr) //nolint:forcetypeassert // it was asked for
		free[i] = route{address.Port, &url.URL{Scheme: "nats", Host: address.String()}}
	}
	return free
}

// grant writes accounts.conf as the example's README has it.
func grant(t *testing.T, folder string) {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(natsPassword), bcrypt.MinCost)
	require.NoError(t, err)
	_, accounts, found := strings.Cut(read(t, "examples", "nats-cluster", "README.md"), "```\naccounts {")
	require.True(t, found)
	accounts, _, _ = strings.Cut("accounts {"+accounts, "```")
	accounts = strings.ReplaceAll(accounts, "$2a$11$…", string(hash))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "accounts.conf"), []byte(accounts), 0o600))
}

// certify makes an authority, and a certificate by it that all servers use, for this host.
func certify(t *testing.T, folder string) {
	t.Helper()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	host := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	hostKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	signed := func(file string, certificate *x509.Certificate, key *ecdsa.PrivateKey) {
		der, err := x509.CreateCertificate(rand.Reader, certificate, authority, &key.PublicKey, authorityKey)
		require.NoError(t, err)
		writePEM(t, filepath.Join(folder, file), "CERTIFICATE", der)
	}
	signed("ca.pem", authority, authorityKey)
	signed("server.pem", host, hostKey)
	key, err := x509.MarshalPKCS8PrivateKey(hostKey)
	require.NoError(t, err)
	writePEM(t, filepath.Join(folder, "server-key.pem"), "PRIVATE KEY", key)
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}
