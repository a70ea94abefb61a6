package auth

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

const (
	// maxKeys bounds how many signatures are verified for one request.
	maxKeys = 32
	// minRSABits is what RFC 7518 demands.
	minRSABits = 2048
)

// key is a public key, and the algorithms that it may be used with. These go by the kind of the key, never by what a token
// says, so that a public key is never taken for a shared secret.
type key struct {
	id         string // empty for one that has none
	public     crypto.PublicKey
	algorithms []jose.SignatureAlgorithm
}

// fits reports whether a token with this header may have been signed with the key.
func (k key) fits(h jose.Header) bool {
	return slices.Contains(k.algorithms, jose.SignatureAlgorithm(h.Algorithm)) && (k.id == "" || h.KeyID == "" || k.id == h.KeyID)
}

// parseKeys reads the content of a file of public keys: a JSON Web Key Set, or PEM. Only a set can say that there are none. ignored says
// which keys of a set are for something else.
func parseKeys(content []byte) (keys []key, ignored []string, err error) {
	if bytes.HasPrefix(bytes.TrimSpace(content), []byte("{")) {
		keys, ignored, err = parseJWKS(content)
	} else if keys, err = parsePEM(content); err == nil && len(keys) == 0 {
		err = errors.New("there are no keys in it that verify signatures: it has to be a JSON Web Key Set, or public keys as PEM")
	}
	if len(keys) > maxKeys {
		err = fmt.Errorf("there are %d keys in it: leave at most %d", len(keys), maxKeys)
	}
	return keys, ignored, err
}

func parseJWKS(content []byte) (keys []key, ignored []string, err error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(content, &set); err != nil {
		return nil, nil, fmt.Errorf("it is not a JSON Web Key Set: %w", err)
	}
	if set.Keys == nil {
		return nil, nil, errors.New(`it has no list of keys: {"keys":[]} lets nobody in`)
	}
	for i, raw := range set.Keys {
		var j jose.JSONWebKey
		other, err := foreign(raw)
		if err == nil && other != "" {
			ignored = append(ignored, fmt.Sprintf("key %d: %s", i+1, other))
			continue
		}
		if err == nil {
			err = j.UnmarshalJSON(raw)
		}
		var k key
		if err == nil {
			k, err = newKey(j.KeyID, j.Key, j.Algorithm)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		keys = append(keys, k)
	}
	return keys, ignored, nil
}

// foreign returns what tells that a key is not one that Fanmail verifies signatures with, or "". The same set may hold keys for other
// purposes, and of kinds that came later, which are to be passed over (RFC 7517, 5). Shared secrets are not: who has put one there has
// taken this file for a secret one.
func foreign(raw json.RawMessage) (string, error) {
	var k struct {
		Type       string   `json:"kty"`
		Curve      string   `json:"crv"`
		Use        string   `json:"use"`
		Operations []string `json:"key_ops"`
		Algorithm  string   `json:"alg"`
	}
	if err := json.Unmarshal(raw, &k); err != nil {
		return "", err
	}
	curves := map[string][]string{"RSA": {""}, "EC": {"P-256", "P-384", "P-521"}, "OKP": {"Ed25519"}}[k.Type]
	switch {
	case k.Type == "" || k.Type == "oct": // it will be refused
	case curves == nil:
		return fmt.Sprintf("kty is %q", k.Type), nil
	case !slices.Contains(curves, k.Curve):
		return fmt.Sprintf("crv is %q", k.Curve), nil
	case k.Use != "" && k.Use != "sig":
		return fmt.Sprintf("use is %q", k.Use), nil
	case k.Operations != nil && !slices.Contains(k.Operations, "verify"):
		return fmt.Sprintf("key_ops are %q", k.Operations), nil
	case k.Algorithm != "" && !slices.Contains(algorithms, jose.SignatureAlgorithm(k.Algorithm)):
		return fmt.Sprintf("alg is %q", k.Algorithm), nil
	}
	return "", nil
}

func parsePEM(content []byte) ([]key, error) {
	var keys []key
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		public, err := parseBlock(block)
		if err == nil {
			var k key
			k, err = newKey("", public, "")
			keys = append(keys, k)
		}
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", len(keys)+1, err)
		}
	}
	if begun := bytes.Count(content, []byte("-----BEGIN ")); begun != len(keys) {
		return nil, fmt.Errorf("%d of %d keys are whole", len(keys), begun)
	}
	return keys, nil
}

func parseBlock(block *pem.Block) (crypto.PublicKey, error) {
	switch block.Type {
	case "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(block.Bytes)
	case "CERTIFICATE":
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return certificate.PublicKey, nil
	default:
		return nil, fmt.Errorf("it is a %q, and has to be a PUBLIC KEY: who checks tokens must not be able to make them", block.Type)
	}
}

// newKey returns a key to be used with the algorithms of its kind, or, if it names one, with that alone.
func newKey(id string, public crypto.PublicKey, algorithm string) (key, error) {
	k := key{id: id, public: public}
	switch p := public.(type) {
	case *rsa.PublicKey:
		if p.N.BitLen() < minRSABits {
			return k, fmt.Errorf("it is an RSA key of %d bits, and has to have %d at least", p.N.BitLen(), minRSABits)
		}
		k.algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512}
	case *ecdsa.PublicKey:
		byCurve := map[elliptic.Curve]jose.SignatureAlgorithm{
			elliptic.P256(): jose.ES256, elliptic.P384(): jose.ES384, elliptic.P521(): jose.ES512,
		}
		if a, ok := byCurve[p.Curve]; ok {
			k.algorithms = []jose.SignatureAlgorithm{a}
		}
	case ed25519.PublicKey:
		k.algorithms = []jose.SignatureAlgorithm{jose.EdDSA}
	}
	if algorithm != "" {
		k.algorithms = slices.DeleteFunc(k.algorithms, func(a jose.SignatureAlgorithm) bool { return string(a) != algorithm })
	}
	if len(k.algorithms) == 0 {
		return k, errors.New("it has to be the public key of a signature: RSA, ECDSA on P-256, P-384 or P-521, or Ed25519, with an algorithm to match")
	}
	return k, nil
}
