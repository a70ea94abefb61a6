package auth_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/auth"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func clock() time.Time { return epoch }

func write(tb testing.TB, name, content string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), name)
	require.NoError(tb, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func hashOf(token string) string {
	hash := sha256.Sum256([]byte(token))
	return hex.EncodeToString(hash[:])
}

// long returns a token that is long enough.
func long(text string) string { return text + strings.Repeat("x", 32) }

func TestTokens(t *testing.T) {
	t.Parallel()
	a, err := auth.New(auth.Options{Now: clock, Logger: zerolog.Nop(), TokensFile: write(t, "tokens.yaml", `
tokens:
  - {name: newsroom, sha256: `+hashOf(long("news"))+`, scopes: [publish], senders: [ann, "team-*"]}
  - {name: bob, sha256: `+hashOf(long("bob"))+`, scopes: [read], user: bob}
  - {name: gateway, sha256: `+hashOf(long("gate"))+`, scopes: [read, publish], user: "*", senders: ["*"]}
  - {name: operator, sha256: `+strings.ToUpper(hashOf(long("op")))+`, scopes: [admin], expires: 2026-01-02T03:04:06Z}
  - {name: past, sha256: `+hashOf(long("past"))+`, scopes: [metrics], expires: 2026-01-02T03:04:05Z}
  - {name: short, sha256: `+hashOf("password")+`, scopes: [admin]}
`)})
	require.NoError(t, err)

	news, err := a.Authenticate(long("news"))
	require.NoError(t, err)
	require.Equal(t, "newsroom", news.Name())
	require.True(t, news.Sends("ann"))
	require.True(t, news.Sends("team-red"))
	require.False(t, news.Sends("anna"))
	require.False(t, news.Sends("team"))
	require.False(t, news.Reads("ann"))
	require.False(t, news.Has(auth.Admin, auth.Read))

	bob, err := a.Authenticate(long("bob"))
	require.NoError(t, err)
	require.True(t, bob.Reads("bob"))
	require.False(t, bob.Reads("ben"))
	require.False(t, bob.Sends("bob"))
	require.False(t, bob.ReadsAll())

	gateway, err := a.Authenticate(long("gate"))
	require.NoError(t, err)
	require.True(t, gateway.Reads("anybody"))
	require.True(t, gateway.Sends("anybody"))
	require.False(t, gateway.Has(auth.Admin))

	operator, err := a.Authenticate(long("op"))
	require.NoError(t, err)
	require.True(t, operator.Reads("anybody"))
	require.False(t, operator.Sends("anybody"), "who operates does not publish")

	_, err = a.Authenticate(long("past"))
	require.EqualError(t, err, "the token is not valid: it has expired")
	for _, unknown := range []string{"", "password", long("new"), long("news") + "x", "a.b.c" + long("")} {
		_, err = a.Authenticate(unknown)
		require.ErrorIs(t, err, auth.ErrUnknown, unknown)
	}
}

// Tokens that have expired, or never will, are not the next to expire.
func TestNextExpiry(t *testing.T) {
	t.Parallel()
	line := func(name, expires string) string {
		return "\n  - {name: " + name + ", sha256: " + hashOf(long(name)) + ", scopes: [admin]" + expires + "}"
	}
	for tokens, want := range map[string]time.Time{
		line("a", ""): {},
		line("a", "") + line("b", ", expires: "+epoch.Add(time.Hour).Format(time.RFC3339)) +
			line("c", ", expires: "+epoch.Add(time.Minute).Format(time.RFC3339)) +
			line("d", ", expires: "+epoch.Add(-time.Minute).Format(time.RFC3339)) + line("e", ", expires: "+epoch.Format(time.RFC3339)): epoch.Add(time.Minute),
	} {
		a, err := auth.New(auth.Options{TokensFile: write(t, "tokens.yaml", "tokens:"+tokens), Now: clock})
		require.NoError(t, err)
		require.True(t, want.Equal(a.NextExpiry()), "%v is the next to expire", a.NextExpiry())
	}
	public, _, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	require.Zero(t, newJWT(t, pemOf(t, public)).NextExpiry(), "only who issues web tokens knows when they expire")
}

func TestTokensFilesThatAreRefused(t *testing.T) {
	t.Parallel()
	h := hashOf(long(""))
	for name, test := range map[string]struct{ entry, want string }{
		"no name":          {"{sha256: " + h + ", scopes: [admin]}", "name is empty"},
		"the token itself": {"{name: a, sha256: " + long("") + ", scopes: [admin]}", "sha256 is not the hash of a token"},
		"no scope":         {"{name: a, sha256: " + h + "}", "it has no scopes"},
		"another scope":    {"{name: a, sha256: " + h + ", scopes: [write]}", `there is no scope "write"`},
		"no senders":       {"{name: a, sha256: " + h + ", scopes: [publish]}", "the scope publish and senders go together"},
		"senders too many": {"{name: a, sha256: " + h + ", scopes: [admin], senders: [a]}", "the scope publish and senders go together"},
		"no user":          {"{name: a, sha256: " + h + ", scopes: [read]}", "the scope read and user go together"},
		"a bad user":       {"{name: a, sha256: " + h + ", scopes: [read], user: a/b}", "user contains '/'"},
		"a bad sender":     {"{name: a, sha256: " + h + ", scopes: [publish], senders: [a b]}", `the sender "a b"`},
		"a typo":           {"{name: a, sha256: " + h + ", scope: [admin]}", "field scope not found"},
		"twice":            {"{name: a, sha256: " + h + ", scopes: [admin]}\n  - {name: b, sha256: " + h + ", scopes: [admin]}", "is that of another token"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := auth.New(auth.Options{Now: clock, TokensFile: write(t, "tokens.yaml", "tokens:\n  - "+test.entry+"\n")})
			require.ErrorContains(t, err, test.want)
		})
	}
	_, err := auth.New(auth.Options{Now: clock, TokensFile: "nowhere"})
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A list without elements lets nobody in, and so does a file that stays away. A file without a list is a mistake.
func TestTokensAndKeysAreTakenBack(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	for name, test := range map[string]struct {
		full, none, token string
		options           func(*auth.Options, string)
	}{
		"tokens": {
			"tokens:\n  - {name: a, sha256: " + hashOf(long("a")) + ", scopes: [admin]}\n", "tokens: []\n", long("a"),
			func(o *auth.Options, path string) { o.TokensFile = path },
		},
		"keys": {
			pemOf(t, public), `{"keys":[]}`, sign(t, jose.EdDSA, private, "", valid(nil)),
			func(o *auth.Options, path string) { o.KeysFile, o.Audience = path, "fanmail" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now, path := epoch, write(t, "file", test.full)
			o := auth.Options{Now: func() time.Time { return now }, Logger: zerolog.Nop(), Grace: time.Minute}
			test.options(&o, path)
			a, err := auth.New(o)
			require.NoError(t, err)
			after := func(d time.Duration) error {
				now = now.Add(d)
				_, err := a.Authenticate(test.token)
				return err
			}
			put := func(content string) error {
				before := after(0)
				require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
				require.Equal(t, before, after(5*time.Second), "the file may be half written")
				return after(5 * time.Second)
			}
			require.NoError(t, after(0))
			for _, mistake := range []string{"", "\n# nothing\n", "{}", "tokens:", `{"keys":null}`, test.full[:len(test.full)/2]} {
				require.NoError(t, put(mistake), mistake)
				require.True(t, a.Stale())
			}
			require.ErrorIs(t, put(test.none), auth.ErrUnknown)
			require.False(t, a.Stale())
			require.NoError(t, put(test.full))
			require.NoError(t, os.Remove(path))
			require.NoError(t, after(10*time.Second))
			require.True(t, a.Stale())
			require.NoError(t, after(50*time.Second))
			require.ErrorIs(t, after(10*time.Second), auth.ErrUnknown)
			require.NoError(t, put(test.full))
		})
	}
}

// signer signs claims with a key.
func sign(tb testing.TB, algorithm jose.SignatureAlgorithm, key any, kid string, claims map[string]any) string {
	tb.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, (&jose.SignerOptions{}).WithType("JWT"))
	require.NoError(tb, err)
	payload, err := json.Marshal(claims)
	require.NoError(tb, err)
	signed, err := signer.Sign(payload)
	require.NoError(tb, err)
	text, err := signed.CompactSerialize()
	require.NoError(tb, err)
	return text
}

// valid returns claims that are, with changes: nil removes one.
func valid(changes map[string]any) map[string]any {
	claims := map[string]any{"sub": "bob", "aud": "fanmail", "iss": "issuer", "exp": epoch.Add(time.Hour).Unix(), "scope": "read openid"}
	for name, value := range changes {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	return claims
}

func pemOf(tb testing.TB, public crypto.PublicKey) string {
	tb.Helper()
	der, err := x509.MarshalPKIXPublicKey(public)
	require.NoError(tb, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func newJWT(tb testing.TB, keys string) *auth.Authenticator {
	tb.Helper()
	a, err := auth.New(auth.Options{KeysFile: write(tb, "keys", keys), Audience: "fanmail", Issuer: "issuer", Now: clock, Logger: zerolog.Nop()})
	require.NoError(tb, err)
	return a
}

func TestJWT(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	a := newJWT(t, pemOf(t, public))
	for name, test := range map[string]struct {
		changes map[string]any
		want    string
	}{
		"valid":             {nil, ""},
		"just expired":      {map[string]any{"exp": epoch.Add(-29 * time.Second).Unix()}, ""},
		"one of audiences":  {map[string]any{"aud": []string{"other", "fanmail"}}, ""},
		"expired":           {map[string]any{"exp": epoch.Add(-31 * time.Second).Unix()}, "it has expired"},
		"for ever":          {map[string]any{"exp": nil}, "it has no exp"},
		"not yet":           {map[string]any{"nbf": epoch.Add(time.Minute).Unix()}, "it is not valid yet"},
		"made later":        {map[string]any{"iat": epoch.Add(time.Minute).Unix()}, "it is not valid yet"},
		"another audience":  {map[string]any{"aud": "other"}, "it is for another audience"},
		"no audience":       {map[string]any{"aud": nil}, "it is for another audience"},
		"another issuer":    {map[string]any{"iss": "other"}, "it is of another issuer"},
		"scopes as a list":  {map[string]any{"scope": []string{"read"}}, "its scope is not a string with scopes separated by spaces"},
		"one sender":        {map[string]any{"senders": "ann"}, "its senders is not an array of strings"},
		"a numeric subject": {map[string]any{"sub": 7}, "its sub is not a string"},
		"mixed audiences":   {map[string]any{"aud": []any{"fanmail", 7}}, "its aud is not a string or an array of strings"},
		"a written date":    {map[string]any{"exp": "tomorrow"}, "its exp is not a number"},
		"another case":      {map[string]any{"Scope": "admin", "SCOPE": 7}, ""},
		"senders of no use": {map[string]any{"senders": []string{"a/b"}}, "its senders are not user ids"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := a.Authenticate(sign(t, jose.EdDSA, private, "", valid(test.changes)))
			if test.want != "" {
				require.EqualError(t, err, "the token is not valid: "+test.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "jwt:bob", p.Name())
			require.True(t, p.Reads("bob"))
			require.False(t, p.Reads("ben"))
			require.False(t, p.Has(auth.Admin, auth.Publish, auth.Metrics))
		})
	}
}

// Other tokens of the same issuer, such as those that confirm a login to a web page, are no access tokens.
func TestTypesOfJWTs(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	a := newJWT(t, pemOf(t, public))
	token := func(payload string, typ any) string {
		header, err := json.Marshal(map[string]any{"alg": "EdDSA", "typ": typ})
		require.NoError(t, err)
		if typ == "" {
			header = []byte(`{"alg":"EdDSA"}`)
		}
		signed := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString([]byte(payload))
		return signed + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(private, []byte(signed)))
	}
	payload, err := json.Marshal(valid(nil))
	require.NoError(t, err)
	for _, good := range []any{"", nil, "JWT", "jwt", "at+jwt", "AT+JWT", "application/at+jwt"} {
		_, err := a.Authenticate(token(string(payload), good))
		require.NoError(t, err, good)
	}
	for _, bad := range []any{"logout+jwt", "secevent+jwt", "dpop+jwt", "JOSE", "application/json", 7, []string{"JWT"}} {
		_, err := a.Authenticate(token(string(payload), bad))
		require.EqualError(t, err, "the token is not valid: its typ is neither JWT nor at+jwt", bad)
	}
	for _, odd := range []string{`["a"]`, strings.Replace(string(payload), "{", `{"scope":"admin",`, 1)} {
		_, err := a.Authenticate(token(odd, "JWT"))
		require.EqualError(t, err, "the token is not valid: its claims are not a JSON object with each name at most once")
	}
}

func TestJWTSubjectsAndSenders(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	a := newJWT(t, pemOf(t, public))
	principal := func(changes map[string]any) *auth.Principal {
		p, err := a.Authenticate(sign(t, jose.EdDSA, private, "", valid(changes)))
		require.NoError(t, err)
		return p
	}
	p := principal(map[string]any{"scope": "publish"})
	require.True(t, p.Sends("bob"), "a user publishes as themselves")
	require.False(t, p.Sends("ann"))
	p = principal(map[string]any{"scope": "publish", "senders": []string{"ann", "team-*"}})
	require.False(t, p.Sends("bob"), "senders name all of them")
	require.True(t, p.Sends("ann"))
	require.True(t, p.Sends("team-"))
	p = principal(map[string]any{"scope": "publish", "senders": []string{}})
	require.False(t, p.Sends("bob"))
	p = principal(map[string]any{"sub": "*"})
	require.False(t, p.Reads("bob"), "a subject is a user, and never all of them")
	require.True(t, p.Reads("*"))
	for _, nobody := range []any{nil, "", "a/b", "..", "a b"} {
		p = principal(map[string]any{"sub": nobody, "scope": "read publish"})
		require.Empty(t, p.User())
		require.False(t, p.Reads(""))
		require.False(t, p.Sends(""))
		require.False(t, p.Reads("bob"))
	}
	require.True(t, principal(map[string]any{"scope": "metrics admin"}).Has(auth.Metrics))
	require.False(t, principal(map[string]any{"scope": nil}).Has(auth.Publish, auth.Read, auth.Admin, auth.Metrics))
}

func TestJWTSignatures(t *testing.T) {
	t.Parallel()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	_, stranger, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	rsaPEM := pemOf(t, &rsaKey.PublicKey)
	both := newJWT(t, rsaPEM+pemOf(t, &ecKey.PublicKey))
	for _, good := range []string{
		sign(t, jose.RS256, rsaKey, "", valid(nil)), sign(t, jose.PS512, rsaKey, "any", valid(nil)), sign(t, jose.ES256, ecKey, "", valid(nil)),
	} {
		_, err := both.Authenticate(good)
		require.NoError(t, err)
	}
	signed := sign(t, jose.RS256, rsaKey, "", valid(nil))
	parts := strings.Split(signed, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + parts[1] + "."
	admin, err := json.Marshal(valid(map[string]any{"scope": "admin"}))
	require.NoError(t, err)
	for name, bad := range map[string]string{
		"a key that is not there":              sign(t, jose.EdDSA, stranger, "", valid(nil)),
		"the public key as a secret":           sign(t, jose.HS256, []byte(rsaPEM), "", valid(nil)),
		"no signature":                         none,
		"a signature of something else":        parts[0] + "." + base64.RawURLEncoding.EncodeToString(admin) + "." + parts[2],
		"a signature that was cut":             signed[:len(signed)-8],
		"more than a token":                    signed + ".x",
		"too long":                             sign(t, jose.RS256, rsaKey, "", valid(map[string]any{"x": strings.Repeat("x", 9000)})),
		"an algorithm of another kind of keys": base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256"}`)) + "." + parts[1] + "." + parts[2],
	} {
		_, err := both.Authenticate(bad)
		require.ErrorIs(t, err, auth.ErrUnknown, name)
	}

	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: &rsaKey.PublicKey, KeyID: "one", Use: "sig", Algorithm: "RS256"},
		{Key: &ecKey.PublicKey, KeyID: "two"},
		{Key: &ecKey.PublicKey, KeyID: "three", Use: "enc"},
	}})
	require.NoError(t, err)
	jwks := newJWT(t, string(set))
	_, err = jwks.Authenticate(sign(t, jose.RS256, rsaKey, "one", valid(nil)))
	require.NoError(t, err)
	_, err = jwks.Authenticate(sign(t, jose.ES256, ecKey, "two", valid(nil)))
	require.NoError(t, err)
	for _, bad := range []string{
		sign(t, jose.RS256, rsaKey, "two", valid(nil)), sign(t, jose.RS384, rsaKey, "one", valid(nil)), sign(t, jose.ES256, ecKey, "three", valid(nil)),
	} {
		_, err := jwks.Authenticate(bad)
		require.ErrorIs(t, err, auth.ErrUnknown)
	}
}

// A set may hold keys of kinds that nobody here knows, and for purposes of others: they are passed over, and verify nothing.
func TestKeysOfOtherKindsArePassedOver(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	ours, err := json.Marshal(jose.JSONWebKey{Key: public, KeyID: "ours"})
	require.NoError(t, err)
	foreign := `{"kty":"new","x":[1]}, {"kty":"OKP","crv":"X25519","x":"AA"}, {"kty":"EC","crv":"secp256k1","x":"AA","y":"AA","kid":"theirs"}, ` +
		`{"kty":"RSA","use":"enc","n":"AQ","e":"AQAB"}, {"kty":"RSA","alg":"RSA-OAEP","n":"AQ","e":"AQAB"}, {"kty":"RSA","key_ops":["encrypt"],"n":"AQ","e":"AQAB"}, ` +
		`{"kty":"EC","crv":"P-256","alg":"ECDH-ES","x":"AA","y":"AA"}, {"kty":"OKP","crv":"Ed25519","use":"later","x":"AA"}`
	var log bytes.Buffer
	a, err := auth.New(auth.Options{
		KeysFile: write(t, "keys", `{"keys":[`+foreign+`,`+string(ours)+`]}`), Audience: "fanmail", Now: clock, Logger: zerolog.New(&log),
	})
	require.NoError(t, err)
	var line struct {
		Keys    int      `json:"keys"`
		Ignored []string `json:"ignored"`
	}
	require.NoError(t, json.Unmarshal(log.Bytes(), &line))
	require.Equal(t, 1, line.Keys)
	require.Equal(t, []string{
		`key 1: kty is "new"`, `key 2: crv is "X25519"`, `key 3: crv is "secp256k1"`, `key 4: use is "enc"`, `key 5: alg is "RSA-OAEP"`,
		`key 6: key_ops are ["encrypt"]`, `key 7: alg is "ECDH-ES"`, `key 8: use is "later"`,
	}, line.Ignored)
	_, err = a.Authenticate(sign(t, jose.EdDSA, private, "ours", valid(nil)))
	require.NoError(t, err)
	_, err = a.Authenticate(sign(t, jose.EdDSA, private, "theirs", valid(nil)))
	require.ErrorIs(t, err, auth.ErrUnknown)
}

func TestKeysFilesThatAreRefused(t *testing.T) {
	t.Parallel()
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	require.NoError(t, err)
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	privateJWK, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: private}}})
	require.NoError(t, err)
	publicJWK, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: private.Public()}}})
	require.NoError(t, err)
	for name, test := range map[string]struct{ content, want string }{
		"nothing":       {"", "there are no keys in it that verify signatures"},
		"no PEM":        {"secret", "there are no keys in it that verify signatures"},
		"no JSON":       {"{", "it is not a JSON Web Key Set"},
		"a small key":   {pemOf(t, &small.PublicKey), "an RSA key of 1024 bits"},
		"a private key": {string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "who checks tokens must not be able to make them"},
		"a private JWK": {string(privateJWK), "it has to be the public key of a signature"},
		"a secret":      {`{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`, "it has to be the public key of a signature"},
		"an odd pair":   {strings.Replace(string(publicJWK), `"kty"`, `"alg":"RS256","kty"`, 1), "with an algorithm to match"},
		"no kind":       {`{"keys":[{"n":"AQ","e":"AQAB"}]}`, "key 1: "},
		"no object":     {`{"keys":[7]}`, "key 1: "},
		"half a key":    {pemOf(t, private.Public()) + pemOf(t, private.Public())[:60], "1 of 2 keys are whole"},
		"no list":       {"{}", "it has no list of keys"},
		"too many":      {strings.Repeat(pemOf(t, private.Public()), 33), "there are 33 keys in it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := auth.New(auth.Options{KeysFile: write(t, "keys", test.content), Audience: "fanmail", Now: clock})
			require.ErrorContains(t, err, test.want)
			require.NotContains(t, err.Error(), "c2VjcmV0")
		})
	}
	_, err = auth.New(auth.Options{KeysFile: "keys", Now: clock})
	require.ErrorContains(t, err, "no audience")
	_, err = auth.New(auth.Options{Now: clock})
	require.ErrorContains(t, err, "neither a tokens file nor a keys file")
}

// FuzzAuthenticate makes up tokens: none may be taken for somebody's but the one that is.
func FuzzAuthenticate(f *testing.F) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(f, err)
	a := newJWT(f, pemOf(f, public))
	signed := sign(f, jose.EdDSA, private, "", valid(nil))
	for _, seed := range []string{
		"", "..", "a.b.c", signed + "=", strings.ToUpper(signed), "eyJhbGciOiJub25lIn0.e30.",
		"eyJhbGciOiJFZERTQSIsImNyaXQiOlsieCJdfQ.e30.AA", base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat(`{"a":`, 5000))) + ".e30.AA",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		p, err := a.Authenticate(token)
		if err == nil {
			// The signature may be encoded in several ways, and nothing else may differ.
			require.Equal(t, "jwt:bob", p.Name())
			require.False(t, p.Has(auth.Admin, auth.Publish, auth.Metrics), token)
		}
	})
}
