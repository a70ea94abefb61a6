//go:build long

package security_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
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
	file.WriteString("tokens: [")
	for name, grants := range opaque {
		hash := sha256.Sum256([]byte(opaqueToken(name)))
		fmt.Fprintf(&file, "{name: %s, sha256: %s, %s}, ", name, hex.EncodeToString(hash[:]), grants)
	}
	file.WriteString("]\n")
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
