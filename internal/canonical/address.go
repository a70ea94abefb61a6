package canonical

import (
	"net/mail"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/text/cases"
	"golang.org/x/text/language"
	"golang.org/x/text/unicode/norm"
)

// email is the form of email addresses: without a display name, comment or quotes, in NFC and lower case, with the domain as IDNA looks it up.
// Dots and +tags in front of the @ stay, because only the owner of the domain knows whether they matter.
func email(value string) (string, refusal) {
	const want refusal = "is not a bare email address such as joe@example.com: leave out names, comments, quotes and white space"
	if unprintable(value) || strings.ContainsAny(value, `"(),:;<>[]\`) {
		return "", want
	}
	value = lower(value)
	parsed, err := mail.ParseAddress(value)
	if err != nil || parsed.Name != "" || parsed.Address != value {
		return "", want
	}
	at := strings.LastIndexByte(value, '@')
	domain, ok := lookedUp(value[at+1:])
	if !ok {
		return "", "has a domain that cannot exist"
	}
	value = value[:at+1] + domain
	if len(value) > maxEmail {
		return "", tooLong(len(value), maxEmail)
	}
	return value, ""
}

// lower returns a text in NFC and lower case. A letter in lower case may compose with what follows it, so NFC comes last, too. The whole
// mapping of Unicode keeps letters apart that strings.ToLower makes one, such as İ and I. A Caser has a state, so each call makes one.
func lower(text string) string {
	return norm.NFC.String(cases.Lower(language.Und, cases.HandleFinalSigma(false)).String(norm.NFC.String(text)))
}

const (
	maxDomain = 253
	maxLabel  = 63
)

// lookedUp returns a domain in the form in which programs look it up: in ASCII and lower case.
func lookedUp(domain string) (string, bool) {
	domain, err := idna.Lookup.ToASCII(domain)
	if err != nil || len(domain) > maxDomain {
		return "", false
	}
	for label := range strings.SplitSeq(domain, ".") {
		if label == "" || len(label) > maxLabel {
			return "", false
		}
	}
	return domain, true
}
