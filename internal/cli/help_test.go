package cli_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/cli"
	"github.com/fanmail/fanmail/internal/cli/program"
)

// Every page of help fits on a screen of 120 columns, and there are at most 50, with those of the programs of roles and of completion.
// TestReference has their text; the layout is that of one page.
func TestHelp(t *testing.T) {
	t.Parallel()
	const most = 55
	count := len(programs) + len([]string{"completion", "bash", "fish", "powershell", "zsh"})
	var look func(cmd *cobra.Command, path ...string)
	look = func(cmd *cobra.Command, path ...string) {
		count++
		got := fanmail(t, append(path, "--help")...)
		require.Equal(t, got, fanmail(t, append([]string{"help"}, path...)...))
		for line := range strings.Lines(got) {
			require.LessOrEqual(t, len([]rune(strings.TrimRight(line, "\n"))), 120, line)
		}
		for _, sub := range shown(cmd) {
			look(sub, append(slices.Clone(path), sub.Name())...)
		}
	}
	look(cli.NewRoot(program.Process{}))
	require.LessOrEqual(t, count, most)
	require.Equal(t, fanmail(t, "topic", "--help"), fanmail(t, "help", "topic", "create"))

	golden := filepath.Join("testdata", "help", "fanmail-topic.golden")
	got := fanmail(t, "topic", "--help")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "if this is intended: go test ./internal/cli -run TestHelp -update")
}

func TestNoCommandPrintsHelp(t *testing.T) {
	t.Parallel()
	require.Equal(t, fanmail(t, "--help"), fanmail(t))
}

func TestVersion(t *testing.T) {
	t.Parallel()
	require.Regexp(t, `^fanmail \S+\n$`, fanmail(t, "--version"))
}

// The help of a benchmark fits on a screen; --help-all has every flag, wherever it stands.
func TestHelpAll(t *testing.T) {
	t.Parallel()
	short, all := fanmail(t, "bench", "fanout", "--help"), fanmail(t, "bench", "fanout", "--help-all")
	require.Less(t, strings.Count(short, "\n"), 40)
	for text := range strings.Lines(short + all) {
		require.LessOrEqual(t, len(strings.TrimSpace(text)), 120)
	}
	for _, flag := range []string{"--fanout-batch-owners", "--auth-tokens-file"} {
		require.NotContains(t, short, flag)
		require.Contains(t, all, flag)
	}
	for _, flag := range []string{"--followers", "--store", "--mongodb-uri", "--help-all"} {
		require.Contains(t, short, flag)
		require.Contains(t, all, flag)
	}
	require.Equal(t, all, fanmail(t, "bench", "fanout", "--help-all", "surplus", "--runs", "2"), "as --help does, it comes before the check of arguments")
	require.Contains(t, fanmail(t, "serve", "--help-all"), "--fanout-batch-owners")
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		require.Contains(t, fanmail(t, "completion", shell), "fanmail")
	}
	require.Contains(t, fanmail(t, "__complete", "ben"), "bench\tMeasure")
	require.Contains(t, fanmail(t, "__complete", "import", ""), "follows\nusers\n")
	require.Equal(t, ":0\n", fanmail(t, "__complete", "import", "users", ""), "a file")
}

// Each command has a manual page with its flags.
func TestManpages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fanmail(t, "manpages", dir)
	page := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name+".1"))
		require.NoError(t, err)
		return string(text)
	}
	for _, name := range []string{"fanmail", "fanmail-bench-fanout", "fanmail-admin-init", "publisher", "fanout-worker", "rehydrator"} {
		text := page(name)
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, ".") {
				require.Regexp(t, `^\.(TH|SH|EX|EE)\b`, line, "%s: a line of text is taken for a request", name)
			}
			require.False(t, strings.HasPrefix(line, "'"), "%s: %s", name, line)
		}
	}
	fanout := page("fanmail-bench-fanout")
	require.Contains(t, fanout, `.TH FANMAIL\-BENCH\-FANOUT 1`)
	require.Contains(t, fanout, `\-\-followers ints`)
	require.Contains(t, fanout, `\-\-fanout\-batch\-owners`, "a manual has room for all flags")
	require.Contains(t, fanout, `fanmail bench fanout \-\-followers 1000000 \-\-dormant 0.95`)
	require.NoFileExists(t, filepath.Join(dir, "fanmail-manpages.1"))
}
