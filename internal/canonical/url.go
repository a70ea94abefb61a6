package canonical

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// webAddress is the form of URLs: the scheme and the host in lower case, without the default port and the fragment, with dot segments
// resolved. A host that is not ASCII is written as IDNA looks it up. The rest stays as given, but for characters that a path must escape.
func webAddress(value string) (string, refusal) {
	const want refusal = "is not a URL such as https://example.com/joe"
	if unprintable(value) {
		return "", "has white space or characters that cannot be printed"
	}
	u, err := url.Parse(value)
	if err != nil {
		return "", want
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return "", "does not begin with http:// or https://"
	}
	if u.User != nil {
		return "", "has a user name or a password: leave them out"
	}
	host, wrong := webHost(u)
	if wrong != "" {
		return "", wrong
	}
	// An escaped dot is a dot (RFC 3986, 6.2.2.2), so a segment of those is a dot segment, too.
	u.RawPath = escapedDots.Replace(u.EscapedPath())
	if u.Path, err = url.PathUnescape(u.RawPath); err != nil {
		return "", want
	}
	u = (&url.URL{}).ResolveReference(u) // resolves dot segments
	u.Host, u.Fragment, u.RawFragment = host, "", ""
	if u.Path == "" {
		u.Path = "/"
	}
	value = u.String()
	if len(value) > maxURL {
		return "", tooLong(len(value), maxURL)
	}
	return value, ""
}

var escapedDots = strings.NewReplacer("%2e", ".", "%2E", ".")

// webHost returns the host of a URL, with its port unless that is the default of the scheme.
func webHost(u *url.URL) (string, refusal) {
	const want refusal = "has no host, or one that cannot exist"
	host := strings.ToLower(u.Hostname())
	if host == "" || host[0] == '.' || strings.Contains(host, "..") || strings.Contains(host, "%") { // % begins the zone of an address, which only one machine knows
		return "", want
	}
	if strings.Contains(host, ":") {
		ip, err := netip.ParseAddr(host)
		if err != nil {
			return "", want
		}
		host = "[" + ip.String() + "]"
	} else if !ascii(host) {
		var ok bool
		if host, ok = lookedUp(host); !ok {
			return "", want
		}
	}
	if u.Port() == "" {
		return host, ""
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || port == 0 {
		return "", "has a port that is not from 1 to 65535"
	}
	if port == map[string]uint64{"http": 80, "https": 443}[u.Scheme] {
		return host, ""
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), strconv.FormatUint(port, 10)), ""
}

func ascii(text string) bool {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return false
		}
	}
	return true
}
