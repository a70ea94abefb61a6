package program

import (
	"errors"
	"fmt"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// likeness is the maximum number of edits between an unknown flag and a flag that is suggested for it.
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
	nearest := nearestFlags(cmd.Flags(), name)
	if len(nearest) == 0 {
		return Usage(err)
	}
	return Usage(fmt.Errorf("%w; did you mean --%s?", err, strings.Join(nearest, " or --")))
}

// nearestFlags returns the flags that take the fewest edits, at most likeness, to come to from name. Without any, it returns the flag that
// begins with name, if there is exactly one. Hidden flags count, because they can be given.
func nearestFlags(flags *pflag.FlagSet, name string) []string {
	var nearest, begun []string
	least := min(likeness, len(name)-1)
	flags.VisitAll(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Name, name) {
			begun = append(begun, f.Name)
		}
		switch d := levenshtein.ComputeDistance(name, f.Name); {
		case d > least:
		case d < least:
			nearest, least = []string{f.Name}, d
		default:
			nearest = append(nearest, f.Name)
		}
	})
	if len(nearest) == 0 && len(begun) == 1 {
		return begun
	}
	return nearest
}
