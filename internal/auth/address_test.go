package auth_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/auth"
	"github.com/fanmail/fanmail/pkg/message"
)

// requireTopics checks to which of some topics a principal may publish.
func requireTopics(t *testing.T, p *auth.Principal, want string) {
	t.Helper()
	var may []string
	for _, path := range []string{"news", "news/de", "newsroom", "programming", "programming/go", "programming/go/1.27", "programmingx/go", "a/b/c/d/e/f/g/h"} {
		if p.MayPublishTo(message.Topic(path)) {
			may = append(may, path)
		}
	}
	require.Equal(t, want, strings.Join(may, " "))
}

const everyTopic = "news news/de newsroom programming programming/go programming/go/1.27 programmingx/go a/b/c/d/e/f/g/h"

func TestAnyoneMayAddressAll(t *testing.T) {
	t.Parallel()
	require.True(t, auth.Anyone().MayAddress("email"))
	requireTopics(t, auth.Anyone(), everyTopic)
}

func TestTokensThatAddress(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ grants, kinds, topics string }{
		"missing lists":             {"scopes: [publish], senders: [ann]", "", ""},
		"an operator without lists": {"scopes: [admin]", "", ""},
		"empty lists":               {"scopes: [publish], senders: [ann], identities: [], topics: []", "", ""},
		"kinds":                     {"scopes: [admin], identities: [email, phone]", "email phone", ""},
		"one topic":                 {"scopes: [publish], senders: [ann], topics: [news]", "", "news"},
		"topics below one":          {`scopes: [publish], senders: [ann], topics: ["programming/*"]`, "", "programming/go programming/go/1.27"},
		"one and those below it":    {`scopes: [publish], senders: [ann], topics: [news, "news/*"]`, "", "news news/de"},
		"all topics":                {`scopes: [publish], senders: [ann], topics: ["*"]`, "", everyTopic},
		"the deepest topic":         {"scopes: [publish], senders: [ann], topics: [a/b/c/d/e/f/g/h]", "", "a/b/c/d/e/f/g/h"},
		"topics below the deepest":  {`scopes: [publish], senders: [ann], topics: ["a/b/c/d/e/f/g/*"]`, "", "a/b/c/d/e/f/g/h"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := auth.New(auth.Options{
				Now: clock, Logger: zerolog.Nop(),
				TokensFile: write(t, "tokens.yaml", "tokens:\n  - {name: a, sha256: "+hashOf(long("a"))+", "+test.grants+"}\n"),
			})
			require.NoError(t, err)
			p, err := a.Authenticate(long("a"))
			require.NoError(t, err)
			for _, kind := range []string{"email", "phone", "handle", ""} {
				require.Equal(t, kind != "" && strings.Contains(test.kinds, kind), p.MayAddress(kind), kind)
			}
			requireTopics(t, p, test.topics)
		})
	}
}

// A missing list of topics to subscribe to allows all of them. A list that cannot be read allows none.
func TestTopicsToSubscribeTo(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	jwts := newJWT(t, pemOf(t, public))
	for name, test := range map[string]struct {
		yaml, want string
		claim      any
	}{
		"missing":         {"", everyTopic, nil},
		"none":            {", subscribe: []", "", []string{}},
		"some":            {", subscribe: [news, 'programming/*']", "news programming/go programming/go/1.27", []string{"news", "programming/*"}},
		"all":             {", subscribe: ['*']", everyTopic, []string{"*"}},
		"another meaning": {"", "", map[string]bool{"newsletter": true}},
		"null":            {"", "", json.RawMessage("null")},
		"bad among good":  {"", "news", []any{"news", "n*", 7}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := func(a *auth.Authenticator, token string) {
				p, err := a.Authenticate(token)
				require.NoError(t, err)
				var may []string
				for path := range strings.FieldsSeq(everyTopic) {
					if p.MaySubscribe(message.Topic(path)) {
						may = append(may, path)
					}
				}
				require.Equal(t, test.want, strings.Join(may, " "))
			}
			check(jwts, sign(t, jose.EdDSA, private, "", valid(map[string]any{"subscribe": test.claim})))
			if test.yaml == "" && test.claim != nil {
				return
			}
			a, err := auth.New(auth.Options{
				Now: clock, Logger: zerolog.Nop(),
				TokensFile: write(t, "tokens.yaml", "tokens:\n  - {name: a, sha256: "+hashOf(long("a"))+", scopes: [read], user: bob"+test.yaml+"}\n"),
			})
			require.NoError(t, err)
			check(a, long("a"))
		})
	}
}

func TestListsOfTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ list, want string }{
		"an empty kind":           {`identities: [email, ""]`, `identities[1] is "": a kind of identities has 1 to 32 of the characters`},
		"a kind in upper case":    {"identities: [Email]", `identities[0] is "Email"`},
		"all kinds":               {`identities: ["*"]`, `identities[0] is "*"`},
		"too long a kind":         {"identities: [" + strings.Repeat("k", 33) + "]", "identities[0] is "},
		"no list of kinds":        {"identities: email", "cannot unmarshal"},
		"a bad subscription":      {`subscribe: [""]`, `subscribe[0] ("") is empty`},
		"a stray subscription":    {"subscribe: [news]", "subscribe goes with the scope read or admin"},
		"an empty pattern":        {`topics: [news, ""]`, `topics[1] ("") is empty`},
		"an empty segment":        {`topics: ["news//de"]`, `topics[0] ("news//de"), segment 2 is empty`},
		"a slash before":          {`topics: ["/news"]`, `topics[0] ("/news"), segment 1 is empty`},
		"a slash behind":          {`topics: ["news/"]`, `topics[0] ("news/"), segment 2 is empty`},
		"below nothing":           {`topics: ["/*"]`, `topics[0] ("/*") is empty`},
		"a star in the middle":    {`topics: ["news/*/de"]`, `topics[0] ("news/*/de") has a * that is not its last segment`},
		"a star in a segment":     {`topics: ["news*"]`, `topics[0] ("news*") has a * that is not its last segment`},
		"two stars":               {`topics: ["news/*/*"]`, `has a * that is not its last segment`},
		"white space":             {`topics: ["the news"]`, `topics[0] ("the news"), segment 1 contains white space`},
		"a dot segment":           {`topics: ["news/.."]`, `topics[0] ("news/.."), segment 2 is ".."`},
		"the separator of stores": {`topics: ["news\x01de"]`, `topics[0] ("news\x01de") contains a control character`},
		"too long a segment":      {"topics: [news/" + strings.Repeat("s", 65) + "]", "segment 2 has 65 bytes"},
		"nine segments":           {"topics: [a/b/c/d/e/f/g/h/i]", "has 9 segments"},
		"below the eighth":        {`topics: ["a/b/c/d/e/f/g/h/*"]`, "stands for no topic: a topic has at most 8 segments"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entry := "{name: a, sha256: " + hashOf(long("")) + ", scopes: [publish], senders: [ann], " + test.list + "}"
			_, err := auth.New(auth.Options{Now: clock, TokensFile: write(t, "tokens.yaml", "tokens:\n  - "+entry+"\n")})
			require.ErrorContains(t, err, test.want)
		})
	}
	_, err := auth.New(auth.Options{Now: clock, TokensFile: write(t, "tokens.yaml", "tokens:\n  - {name: a, sha256: "+hashOf(long(""))+", scopes: [admin], topics: [news]}\n")})
	require.ErrorContains(t, err, "topics go with the scope publish")
}

// Other programs may use the same names of claims. What means nothing here grants nothing, and refuses no token.
func TestJWTsThatAddress(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	a := newJWT(t, pemOf(t, public))
	for name, test := range map[string]struct {
		identities, topics any
		kinds, may         string
	}{
		"missing":          {nil, nil, "", ""},
		"lists":            {[]string{"email", "phone"}, []string{"news", "programming/*"}, "email phone", "news programming/go programming/go/1.27"},
		"all topics":       {nil, []string{"*"}, "", everyTopic},
		"another meaning":  {[]any{map[string]string{"provider": "x"}, "email"}, map[string]string{"news": "x"}, "email", ""},
		"strings":          {"email", "news", "", ""},
		"bad among good":   {[]string{"*", "Email", "phone"}, []string{"", "a//b", "n*", "news"}, "phone", "news"},
		"null in the list": {[]any{nil, "email"}, []any{nil, "news"}, "email", "news"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := a.Authenticate(sign(t, jose.EdDSA, private, "", valid(map[string]any{
				"scope": "publish", "identities": test.identities, "topics": test.topics,
			})))
			require.NoError(t, err)
			for _, kind := range []string{"email", "phone", "Email", "*", ""} {
				require.Equal(t, kind != "" && strings.Contains(" "+test.kinds+" ", " "+kind+" "), p.MayAddress(kind), kind)
			}
			requireTopics(t, p, test.may)
		})
	}
	p, err := a.Authenticate(sign(t, jose.EdDSA, private, "", valid(map[string]any{"scope": "read", "topics": []string{"*"}})))
	require.NoError(t, err)
	requireTopics(t, p, "")
}
