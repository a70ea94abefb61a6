package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// URL is the address of one or more servers, which may hold a password or a token. String masks that, so that it gets into no
// log and no output: string(u) is the address itself.
type URL string

var (
	// password matches what stands between the user's name and the host. A password that holds '@' or '/' unescaped is masked
	// as far as the last '@' before the next address.
	password = regexp.MustCompile(`(://[^:/@,]*:)[^,]*@`)
	// token matches what stands before the host of a NATS server, which is a token where no password follows it.
	token = regexp.MustCompile(`((?:nats|tls|wss?)://)[^:/@,]+@`)
	// parameter matches those parameters of a connection string that hold secrets.
	parameter = regexp.MustCompile(`(?i)([?&](?:[a-z]*password|authMechanismProperties)=)[^&]*`)
)

// String returns the address with a mask in place of every secret.
func (u URL) String() string {
	text := password.ReplaceAllString(string(u), "${1}"+mask+"@")
	text = token.ReplaceAllString(text, "${1}"+mask+"@")
	return parameter.ReplaceAllString(text, "${1}"+mask)
}

// mask stands for a secret.
const mask = "*****"

// CheckMongoURI returns what is wrong with the connection string of a MongoDB deployment, as far as can be told before it is
// used. The error does not repeat it, and continues a sentence that begins with where it is from.
func CheckMongoURI(text string) error { return URL(text).check([]string{"mongodb", "mongodb+srv"}) }

// check returns what is wrong with an address that is to have one of some schemes. The error does not repeat it, since what
// cannot be read may hold a password anywhere.
func (u URL) check(schemes []string) error {
	for part := range strings.SplitSeq(string(u), ",") {
		scheme, rest, found := strings.Cut(part, "://")
		switch {
		case strings.HasPrefix(schemes[0], "mongodb"):
			// Hosts that are separated by commas make up one address, which package url does not read: the driver does.
			if !found || !slices.Contains(schemes, scheme) || rest == "" {
				return fmt.Errorf("must begin with %s:// and the name of a host", strings.Join(schemes, ":// or "))
			}
			return nil
		case !found: // as the client of NATS takes it, too
			scheme, part = schemes[0], schemes[0]+"://"+part
		}
		parsed, err := url.Parse(strings.TrimSpace(part))
		if err != nil || parsed.Host == "" {
			return errors.New("is not an address, such as " + schemes[0] + "://10.0.0.1:4222, several separated by commas; " +
				"percent-encode what is special in a password")
		}
		if !slices.Contains(schemes, strings.TrimSpace(scheme)) {
			last := len(schemes) - 1
			return fmt.Errorf("must begin with %s:// or %s://", strings.Join(schemes[:last], "://, "), schemes[last])
		}
	}
	return nil
}
