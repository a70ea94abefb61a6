package program

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// zeroWidthJoiner joins emoji. It is the one format character that cannot mislead.
const zeroWidthJoiner = '\u200d'

// Printable escapes everything in s that a terminal would interpret: control characters, format characters such as those that
// change the direction of writing, and invalid UTF-8. A tab becomes a space.
func Printable(s string) string {
	clean := func(r rune) bool { return r == zeroWidthJoiner || r != utf8.RuneError && unicode.IsGraphic(r) }
	if strings.IndexFunc(s, func(r rune) bool { return !clean(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '\t':
			b.WriteByte(' ')
		case clean(r), r == utf8.RuneError:
			b.WriteString(s[:size])
		default:
			quoted := strconv.QuoteRuneToGraphic(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[size:]
	}
	return b.String()
}
