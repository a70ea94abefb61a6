package canonical

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/nyaruka/phonenumbers"
)

// noRegion is what the parser calls a number that begins with its country code.
const noRegion = "ZZ"

// phone is the form of phone numbers, E.164. Separators are dropped. The number has to be possible, not assigned: plans of numbers change
// more often than releases.
func phone(value string) (string, refusal) {
	const want refusal = "is not a phone number with its country code, such as +493012345678"
	if !strings.HasPrefix(value, "+") {
		return "", "does not begin with + and a country code, such as +493012345678"
	}
	for _, r := range value[1:] {
		if !unicode.IsDigit(r) && !unicode.In(r, unicode.Zs, unicode.Pd) && !strings.ContainsRune("()./", r) {
			return "", "has other characters than digits and separators: give the number without letters and without an extension, such as +493012345678"
		}
	}
	number, err := phonenumbers.Parse(value, noRegion)
	if err != nil || number.GetExtension() != "" {
		return "", want
	}
	if now := renumbered(phonenumbers.Format(number, phonenumbers.E164)); now != "" {
		return phone(now)
	}
	if phonenumbers.IsPossibleNumberWithReason(number) != phonenumbers.IS_POSSIBLE {
		return "", "has too few or too many digits for its country"
	}
	return phonenumbers.Format(number, phonenumbers.E164), ""
}

// plans has numbers that got or lost digits, of plans in which one rule says how, and no old number is a new one of another subscriber.
var plans = []struct {
	old *regexp.Regexp
	now string
}{
	{regexp.MustCompile(`^\+521(\d{10})$`), "+52$1"},                   // Mexico, 2019: mobile numbers have no 1 in front
	{regexp.MustCompile(`^\+55([1-9]{2})([6-9]\d{7})$`), "+55${1}9$2"}, // Brazil, 2016: mobile numbers begin with another 9
	{regexp.MustCompile(`^\+229(\d{8})$`), "+22901$1"},                 // Benin, 2024: all numbers begin with 01
}

// renumbered returns the number that an old one became, or nothing if the number is not old.
func renumbered(number string) string {
	for _, plan := range plans {
		if plan.old.MatchString(number) {
			return plan.old.ReplaceAllString(number, plan.now)
		}
	}
	return ""
}
