package canonical

import (
	"strings"
	"unicode"

	"golang.org/x/text/secure/precis"
)

// handle is the form of handles: without the @ in front, as the PRECIS profile UsernameCaseMapped has it. A handle with another @ would be taken
// for an email address. One with letters of two scripts could look like another, such as one with a Cyrillic а among Latin letters.
func handle(value string) (string, refusal) {
	mapped, err := precis.UsernameCaseMapped.String(strings.TrimPrefix(value, "@"))
	if err != nil {
		return "", "is not a handle: it must have letters, digits and other printable characters, and no white space"
	}
	if len(mapped) > maxHandle {
		return "", tooLong(len(mapped), maxHandle)
	}
	if strings.Contains(mapped, "@") || !oneScript(mapped) {
		return "", "is not a handle: it must have letters of one script, and an @ only in front"
	}
	return mapped, ""
}

// eastAsian has the scripts that Chinese, Japanese and Korean mix.
var eastAsian = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo}

// oneScript reports whether all characters of a text that belong to a script belong to the same.
func oneScript(text string) bool {
	var script []*unicode.RangeTable
	for _, r := range text {
		switch {
		case unicode.In(r, unicode.Common, unicode.Inherited):
		case script == nil:
			script = scriptOf(r)
		case !unicode.In(r, script...):
			return false
		}
	}
	return true
}

func scriptOf(r rune) []*unicode.RangeTable {
	if unicode.In(r, eastAsian...) {
		return eastAsian
	}
	for _, script := range unicode.Scripts {
		if unicode.Is(script, r) {
			return []*unicode.RangeTable{script}
		}
	}
	return nil
}
