package cli

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/cli/program"
)

// version says what the program was built from.
type version struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	// Commit is empty if the build did not record it.
	Commit string `json:"commit,omitempty"`
}

func newVersion(p program.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Long:    "Print the version of this program, that of Go, and the commit from which it was built, if the build recorded it.",
		Example: "  fanmail version --json",
		Args:    program.Exactly(),
	}
	out := newOutput(p, cmd, "print it as JSON")
	cmd.RunE = func(*cobra.Command, []string) error {
		v := version{Version: program.Version(), Go: runtime.Version()}
		if info, ok := debug.ReadBuildInfo(); ok {
			for _, setting := range info.Settings {
				if setting.Key == "vcs.revision" {
					v.Commit = setting.Value
				}
			}
		}
		return out.sayf(v, "fanmail  %s\ngo       %s\ncommit   %s\n", v.Version, v.Go, cmp.Or(v.Commit, "not recorded"))
	}
	return cmd
}
