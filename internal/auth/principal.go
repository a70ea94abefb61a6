package auth

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fanmail/fanmail/pkg/message"
)

// Scope is something that a token allows.
type Scope string

// The scopes.
const (
	// Publish allows to publish messages as certain senders, and to look at the status of theirs.
	Publish Scope = "publish"
	// Read allows what a user does themselves: to log in, to read and tidy their inbox, to follow.
	Read Scope = "read"
	// Admin allows the requests of operators and reading for every user. It does not allow publishing.
	Admin Scope = "admin"
	// Operate allows to look at how a deployment works: not at what messages say, nor at what an inbox shows. It changes nothing.
	Operate Scope = "operate"
	// Metrics allows to read what is measured.
	Metrics Scope = "metrics"
)

func scopes() []Scope { return []Scope{Publish, Read, Admin, Operate, Metrics} }

// Principal is who makes a request, and what they may do. It does not change.
type Principal struct {
	name    string
	scopes  []Scope
	senders senders
	user    message.UserID
	// everybody is true if Read covers every user, and false if it covers user only.
	everybody bool
	// kinds are the kinds of identities that the principal may address, unless everyKind is set.
	kinds     []string
	everyKind bool
	topics    []topicPattern
	// subscribe are the topics that the principal may subscribe to.
	subscribe []topicPattern
}

// Anyone returns the principal of a server without authentication: it may do everything.
func Anyone() *Principal {
	return &Principal{
		name: "anyone", scopes: scopes(), senders: senders{{prefix: true}}, everybody: true, everyKind: true, topics: everyTopic, subscribe: everyTopic,
	}
}

// Name returns what to call the principal in the log.
func (p *Principal) Name() string { return p.name }

// Has reports whether the principal has one of some scopes.
func (p *Principal) Has(some ...Scope) bool {
	return slices.ContainsFunc(some, func(s Scope) bool { return slices.Contains(p.scopes, s) })
}

// Sends reports whether the principal may publish as a user.
func (p *Principal) Sends(as message.UserID) bool { return p.Has(Publish) && p.senders.match(as) }

// Reads reports whether the principal may act as a user who reads.
func (p *Principal) Reads(as message.UserID) bool {
	return p.ReadsAll() || p.Has(Read) && p.user != "" && p.user == as
}

// ReadsAll reports whether the principal may act as every user who reads.
func (p *Principal) ReadsAll() bool { return p.Has(Admin) || p.Has(Read) && p.everybody }

// User returns the one user whom the principal reads for, or "" if there is none.
func (p *Principal) User() message.UserID {
	if !p.Has(Read) {
		return ""
	}
	return p.user
}

// sender is a user id, or what the ids of several begin with.
type sender struct {
	text   string
	prefix bool
}

type senders []sender

func (s senders) match(user message.UserID) bool {
	return slices.ContainsFunc(s, func(one sender) bool {
		if one.prefix {
			return strings.HasPrefix(string(user), one.text)
		}
		return string(user) == one.text
	})
}

// parseSenders reads the ids of senders. One that ends in '*' stands for all ids that begin with what is before it.
func parseSenders(texts []string) (senders, error) {
	parsed := make(senders, 0, len(texts))
	for _, text := range texts {
		begin, prefix := strings.CutSuffix(text, "*")
		if begin != "" || !prefix {
			if err := message.UserID(begin).Validate("senders"); err != nil {
				return nil, fmt.Errorf("the sender %q: %w", text, err)
			}
		}
		parsed = append(parsed, sender{text: begin, prefix: prefix})
	}
	return parsed, nil
}
