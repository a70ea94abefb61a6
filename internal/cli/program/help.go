package program

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is the number of columns of a help text.
const helpWidth = 120

// HelpAll is the flag that prints the help with the flags that --help leaves out.
const HelpAll = "help-all"

// SetTexts sets the texts that all programs share: the version, and the help, which breaks long descriptions of flags.
func SetTexts(root *cobra.Command) {
	root.Version = Version()
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages |", fmt.Sprintf(".FlagUsagesWrapped %d |", helpWidth)))
}

// helpAll is the value of the flag HelpAll. Setting it shows all flags and asks for the help.
type helpAll struct{ flags *pflag.FlagSet }

func (helpAll) String() string { return "false" }

func (helpAll) Type() string { return "bool" }

// Set is called while the command line is read, and takes effect before the arguments are checked, as --help does.
func (h helpAll) Set(text string) error {
	asked, err := strconv.ParseBool(text)
	if err != nil || !asked {
		return err
	}
	h.flags.VisitAll(func(f *pflag.Flag) { f.Hidden = false })
	return h.flags.Set("help", "true")
}

// addHelpAll adds the flag HelpAll to a command that has hidden flags.
func addHelpAll(cmd *cobra.Command) {
	cmd.Flags().VarPF(helpAll{cmd.Flags()}, HelpAll, "", "help with all flags, also those that --help leaves out").NoOptDefVal = "true"
}
