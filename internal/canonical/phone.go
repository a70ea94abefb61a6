package canonical

import (
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
	if phonenumbers.IsPossibleNumberWithReason(number) != phonenumbers.IS_POSSIBLE {
		return "", "has too few or too many digits for its country"
	}
	return phonenumbers.Format(number, phonenumbers.E164), ""
}
