package security_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"
)

// issuer makes tokens that a server knows by the files of the settings.
type issuer struct {
	t       *testing.T
	private ed25519.PrivateKey
	dir     string
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKIXPublicKey(public)
	require.NoError(t, err)
	i := &issuer{t: t, private: private, dir: t.TempDir()}
	i.write("keys.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
	return i
}

func (i *issuer) write(name, content string) string {
	i.t.Helper()
	path := filepath.Join(i.dir, name)
	require.NoError(i.t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// settings are the keys of a configuration that knows the issuer's tokens, and, by their names, some opaque ones.
func (i *issuer) settings(opaque map[string]string) map[string]string {
	i.t.Helper()
	var file strings.Builder
	file.WriteString("tokens:\n")
	for name, grants := range opaque {
		hash := sha256.Sum256([]byte(opaqueToken(name)))
		fmt.Fprintf(&file, "  - {name: %s, sha256: %s, %s}\n", name, hex.EncodeToString(hash[:]), grants)
	}
	return map[string]string{
		"auth.tokens_file": i.write("tokens.yaml", file.String()), "auth.jwt_keys_file": filepath.Join(i.dir, "keys.pem"),
		"auth.jwt_audience": "fanmail", "auth.jwt_issuer": "https://issuer.example",
	}
}

// opaqueToken returns a token that stands for a random one.
func opaqueToken(name string) string {
	return "sesame-" + hex.EncodeToString([]byte(name)) + strings.Repeat("0", 32)
}

// token returns a JSON Web Token of somebody that is valid for a time from now on.
func (i *issuer) token(sub, scope string, valid time.Duration, senders ...string) string {
	i.t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: i.private}, (&jose.SignerOptions{}).WithType("JWT"))
	require.NoError(i.t, err)
	claims := map[string]any{
		"iss": "https://issuer.example", "aud": "fanmail", "sub": sub, "scope": scope, "exp": jwt.NewNumericDate(time.Now().Add(valid)),
	}
	if len(senders) > 0 {
		claims["senders"] = senders
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	require.NoError(i.t, err)
	return text
}

// authority makes certificates.
type authority struct {
	t           *testing.T
	dir         string
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
	// File holds the authority's own certificate.
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a test's authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	a := &authority{t: t, dir: t.TempDir(), key: key, certificate: certificate}
	a.file = a.writePEM("ca.pem", "CERTIFICATE", der)
	return a
}

func (a *authority) writePEM(name, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	require.NoError(a.t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}

// issue returns the files of a certificate for 127.0.0.1, which may be a server's or a client's, and of its key. Issuing under the
// same name again replaces the files.
func (a *authority) issue(name string) (certFile, keyFile string) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(a.t, err)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	require.NoError(a.t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(a.t, err)
	return a.writePEM(name+".pem", "CERTIFICATE", der), a.writePEM(name+".key", "PRIVATE KEY", private)
}
