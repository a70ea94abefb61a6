package canonical

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// webAddress is the form of URLs: the scheme and the host in lower case, without the default port, the dot of the root and the fragment, with dot
// segments resolved. A host that is not ASCII is written as IDNA looks it up. Path and query have the escapes of RFC 3986, 6.2.2.
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
	// An escaped dot is a dot, so a segment of those is a dot segment, too. EscapedPath would not do for all paths: if a character is missing an
	// escape, it takes %2F for a slash.
	u.RawPath, u.RawQuery = escaped(cmp.Or(u.RawPath, u.EscapedPath())), escaped(u.RawQuery)
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

// escapable matches escapes, and characters that a path and a query must escape.
var escapable = regexp.MustCompile(`%[0-9A-Fa-f]{2}|[^-A-Za-z0-9._~!$&'()*+,;=:@/?%]`)

// escaped returns a text with an escape, in upper case, for each character that needs one, and for no letter, digit or any of -._~.
func escaped(text string) string {
	return escapable.ReplaceAllStringFunc(text, func(found string) string {
		if code, err := strconv.ParseUint(strings.TrimPrefix(found, "%"), 16, 8); found[0] == '%' && err == nil {
			found = string([]byte{byte(code)})
		}
		return strings.ReplaceAll(url.QueryEscape(found), "+", "%20")
	})
}

// webHost returns the host of a URL, with its port unless that is the default of the scheme.
func webHost(u *url.URL) (string, refusal) {
	const want refusal = "has no host, or one that cannot exist"
	host := strings.ToLower(u.Hostname())
	if host == "" || host[0] == '.' || strings.Contains(host, "..") || strings.Contains(host, "%") { // % begins the zone of an address, which only one machine knows
		return "", want
	}
	host = strings.TrimSuffix(host, ".")
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
