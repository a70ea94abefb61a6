package canonical

import (
	"strings"

	"golang.org/x/text/secure/precis"
)

// handle is the form of handles: without the @ in front, as the PRECIS profile UsernameCaseMapped has it.
func handle(value string) (string, refusal) {
	mapped, err := precis.UsernameCaseMapped.String(strings.TrimPrefix(value, "@"))
	if err != nil {
		return "", "is not a handle: it must have letters, digits and other printable characters, and no white space"
	}
	if len(mapped) > maxHandle {
		return "", tooLong(len(mapped), maxHandle)
	}
	return mapped, ""
}
