package auth

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/fanmail/fanmail/pkg/message"
)

// minTokenBytes is the least length of a token. No client can guess a random token of that length, which is why its plain hash
// may be kept; the length refuses passwords of people.
const minTokenBytes = 32

// everybody is the user of a token, in a tokens file, that may read for all users.
const everybody = "*"

// entry is a token as the tokens file tells of it.
type entry struct {
	Name       string    `yaml:"name"`
	SHA256     string    `yaml:"sha256"`
	Scopes     []Scope   `yaml:"scopes"`
	Senders    []string  `yaml:"senders"`
	User       string    `yaml:"user"`
	Identities []string  `yaml:"identities"`
	Topics     []string  `yaml:"topics"`
	Subscribe  []string  `yaml:"subscribe"` // nil for all topics
	Expires    time.Time `yaml:"expires"`
}

// token is an entry that was checked.
type token struct {
	hash      [sha256.Size]byte
	expires   time.Time
	principal *Principal
}

type tokens []token

// find returns the token that hashes to what the given one hashes to, or nil. It compares with all of them, each in the same
// time whatever it holds.
func (t tokens) find(text string) *token {
	hash := sha256.Sum256([]byte(text))
	found := -1
	for i := range t {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(t[i].hash[:], hash[:]), i, found)
	}
	if found < 0 {
		return nil
	}
	return &t[found]
}

// parseTokens reads the content of a tokens file.
func parseTokens(content []byte) (tokens, error) {
	var file struct {
		Tokens []entry `yaml:"tokens"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if file.Tokens == nil {
		return nil, errors.New("it has no list of tokens: 'tokens: []' lets nobody in")
	}
	all := make(tokens, 0, len(file.Tokens))
	for i, e := range file.Tokens {
		t, err := e.check()
		if err == nil && slices.ContainsFunc(all, func(o token) bool { return o.principal.name == e.Name || o.hash == t.hash }) {
			err = errors.New("its name or its sha256 is that of another token, too")
		}
		if err != nil {
			return nil, fmt.Errorf("token %d (%s): %w", i+1, e.Name, err)
		}
		all = append(all, t)
	}
	return all, nil
}

// check returns the token, or what is wrong with the entry.
func (e entry) check() (t token, err error) {
	hash, err := hex.DecodeString(e.SHA256)
	if err != nil || len(hash) != sha256.Size {
		return t, errors.New("sha256 is not the hash of a token: it has to be 64 hexadecimal digits, as sha256sum prints them")
	}
	p := &Principal{name: e.Name, scopes: e.Scopes, everybody: e.User == everybody, kinds: e.Identities}
	if !p.everybody {
		p.user = message.UserID(e.User)
	}
	if p.senders, err = parseSenders(e.Senders); err != nil {
		return t, err
	}
	if p.topics, err = parseTopics("topics", e.Topics); err != nil {
		return t, err
	}
	if p.subscribe, err = parseTopics("subscribe", e.Subscribe); err != nil {
		return t, err
	}
	if e.Subscribe == nil {
		p.subscribe = everyTopic
	}
	if err := checkKinds(e.Identities); err != nil {
		return t, err
	}
	for _, s := range e.Scopes {
		if !slices.Contains(scopes(), s) {
			return t, fmt.Errorf("there is no scope %q: the scopes are %v", s, scopes())
		}
	}
	switch {
	case e.Name == "":
		return t, errors.New("name is empty: the log calls it by its name")
	case len(e.Scopes) == 0:
		return t, fmt.Errorf("it has no scopes: give some of %v", scopes())
	case p.Has(Publish) != (len(e.Senders) > 0):
		return t, errors.New(`the scope publish and senders go together: name the senders, such as ann or "team-*"`)
	case p.Has(Read) != (e.User != ""):
		return t, errors.New(`the scope read and user go together: name the user, or "*" for every user`)
	case len(e.Topics) > 0 && !p.Has(Publish):
		return t, errors.New("topics go with the scope publish: they name the topics to publish to")
	case e.Subscribe != nil && !p.Has(Read, Admin):
		return t, errors.New("subscribe goes with the scope read or admin: it names the topics to subscribe to")
	case p.user != "":
		if err := p.user.Validate("user"); err != nil {
			return t, err
		}
	}
	copy(t.hash[:], hash)
	t.expires, t.principal = e.Expires, p
	return t, nil
}
