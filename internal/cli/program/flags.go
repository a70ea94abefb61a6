package program

import (
	"errors"
	"fmt"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// likeness is the maximum number of edits between an unknown name and a name that is suggested for it.
const likeness = 2

// FlagError returns the usage error for an error in the flags of a command. For an unknown flag it names the nearest flags.
func FlagError(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return Usage(err)
	}
	name := unknown.GetSpecifiedName()
	if letters := unknown.GetSpecifiedShortnames(); letters != "" { // one dash, as in -peek=true
		name, _, _ = strings.Cut(letters, "=")
	}
	// Hidden flags count, because they can be given.
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	nearest := Nearest(name, names)
	if len(nearest) == 0 {
		return Usage(err)
	}
	return Usage(fmt.Errorf("%w; did you mean --%s?", err, strings.Join(nearest, " or --")))
}

// Nearest returns the names that take the fewest edits, at most likeness, to come to from name. Without any, it returns the one that
// begins with name, if there is exactly one.
func Nearest(name string, names []string) []string {
	var nearest, begun []string
	least := min(likeness, len(name)-1)
	for _, n := range names {
		if strings.HasPrefix(n, name) {
			begun = append(begun, n)
		}
		switch d := levenshtein.ComputeDistance(name, n); {
		case d > least:
		case d < least:
			nearest, least = []string{n}, d
		default:
			nearest = append(nearest, n)
		}
	}
	if len(nearest) == 0 && len(begun) == 1 {
		return begun
	}
	return nearest
}
