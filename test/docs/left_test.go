//go:build hosttools

package docs_test

import (
	"cmp"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLeftBlocks checks what can be checked of commands that no test runs, because they need a cluster, for example: they can be parsed, and
// the files of the repository that they name exist. It also checks the commands that TestCommands runs.
func TestLeftBlocks(t *testing.T) {
	t.Parallel()
	run, left := 0, 0
	for _, b := range everyBlock(t) {
		switch b.language {
		case "sh":
			parse(t, b, "bash", "-n")
			exist(t, b)
		case "console":
		case "js":
			require.NotEmpty(t, b.left, "no test runs %s: say why in <!-- not run: WHY -->", b.at())
			parse(t, b, "node", "--check", "-")
		default:
			continue
		}
		if runnable(b) {
			run++
		} else {
			left++
			t.Logf("%s is not run: %s", b.at(), cmp.Or(b.left, "needs MongoDB and NATS"))
		}
	}
	t.Logf("TestCommands runs %d blocks of commands; %d are only parsed", run, left)
}

// use is a command of mongosh, which is no JavaScript.
var use = regexp.MustCompile(`(?m)^use .*$`)

func parse(t *testing.T, b block, program string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stdin = strings.NewReader(use.ReplaceAllString(b.text, ""))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", b.at(), out)
}

// file finds the names of files of the repository in commands.
var file = regexp.MustCompile(`(?m)(?:^|[\s=/"'])(\.?/?(?:cmd|deploy|docs|test|config|\.ci)/[^\s;"'#)<>|&]*)`)

// exist requires that the files of the repository that a block names exist, or files with that name and an ending. deploy/secrets is made by
// the reader.
func exist(t *testing.T, b block) {
	t.Helper()
	for _, match := range file.FindAllStringSubmatch(b.text, -1) {
		name := strings.TrimSuffix(match[1], "/...")
		if strings.HasPrefix(name, "deploy/secrets") || strings.HasPrefix(name, "/") {
			continue
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-c", "shopt -s failglob; ls -d -- "+name+" || ls -d -- "+name+".*")
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", b.at(), out)
	}
}

var (
	// called finds a command line of one of the programs.
	called = regexp.MustCompile(`(?m)(?:^\$ |^|[;&|(]|\b(?:do|exec|then) )\s*(?:[A-Z_]+=(?:'[^']*'|\S*)\s+)*(?:bin/|go run \./cmd/)?(fanmail|publisher|fanout-worker|rehydrator)\b([ \t][^#;&|)\n]*)?`)
	// inline finds the same in the text of a page.
	inline = regexp.MustCompile("`(fanmail|publisher|fanout-worker|rehydrator)( [^`\n]*)`")
	// flagged finds the flags of a command line.
	flagged = regexp.MustCompile(`(?:^|\s)(--[a-z][a-z-]*)`)
	word    = regexp.MustCompile(`^[a-z-]+$`)
)

// TestCommandLines requires that the commands and flags of the programs exist which the pages name, in blocks and in their text.
func TestCommandLines(t *testing.T) {
	t.Parallel()
	checked := 0
	check := func(where, program, args string) {
		t.Helper()
		checked++
		command, help := []string{}, helpOf(t, program)
		for arg := range strings.FieldsSeq(args) {
			if !word.MatchString(arg) || strings.HasPrefix(arg, "-") {
				break
			}
			if below := helpOf(t, program, append(slices.Clone(command), arg)...); below != "" {
				command, help = append(command, arg), below
			} else {
				break
			}
		}
		if program == "fanmail" && len(command) == 0 {
			first, _, _ := strings.Cut(strings.TrimSpace(args), " ")
			if word.MatchString(first) && !strings.HasPrefix(first, "-") {
				t.Errorf("%s: there is no command %s%s", where, program, args)
			}
			return
		}
		for _, match := range flagged.FindAllStringSubmatch(args, -1) {
			if !regexp.MustCompile(match[1] + `\b(?:[^-]|$)`).MatchString(help) {
				t.Errorf("%s: %s %s has no flag %s", where, program, strings.Join(command, " "), match[1])
			}
		}
	}
	for _, b := range everyBlock(t) {
		if b.language != "sh" && b.language != "console" {
			continue
		}
		for _, match := range called.FindAllStringSubmatch(strings.ReplaceAll(b.text, "\\\n", " "), -1) {
			check(b.at(), match[1], match[2])
		}
	}
	for page, text := range pages(t) {
		if strings.HasPrefix(page, "docs/adr/") || page == "CHANGELOG.md" {
			continue
		}
		for _, match := range inline.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			check(page, match[1], match[2])
		}
	}
	require.Greater(t, checked, 50, "command lines were found")
	t.Logf("%d command lines were checked", checked)
}

// helps has the help texts of commands, by their names.
var helps = map[string]string{}

// helpOf returns the help of a command with all its flags, or nothing if there is no such command.
func helpOf(t *testing.T, name string, command ...string) string {
	t.Helper()
	full := strings.Join(append([]string{name}, command...), " ")
	if help, known := helps[full]; known {
		return help
	}
	helps[full] = ""
	for _, flag := range []string{"--help-all", "--help"} { // commands that hide no flag have only --help
		cmd := exec.CommandContext(t.Context(), program(name), append(slices.Clone(command), flag)...)
		out, err := cmd.CombinedOutput()
		if usage := regexp.MustCompile(`\n  ` + full + `[ \n]`); err == nil && usage.Match(out) {
			helps[full] = string(out)
			break
		}
	}
	return helps[full]
}
