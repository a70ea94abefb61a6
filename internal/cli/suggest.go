package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/cli/program"
)

// alike are the names here for words that other programs use. A name counts where there is such a command or action.
var alike = map[string][]string{
	"add":     {"create", "set", "declare"},
	"alias":   {"identity"},
	"check":   {"audit"},
	"delete":  {"drop"},
	"dump":    {"backup"},
	"expire":  {"inbox purge", "retention"},
	"letters": {"dlq"},
	"list":    {"messages", "inbox"},
	"load":    {"import"},
	"ls":      {"list", "messages", "inbox"},
	"new":     {"create", "declare"},
	"post":    {"publish"},
	"ps":      {"top", "admin processes"},
	"purge":   {"drop"},
	"redrive": {"dlq"},
	"remove":  {"delete", "drop"},
	"retry":   {"redrive", "dlq"},
	"rm":      {"delete", "drop"},
	"run":     {"serve"},
	"send":    {"publish"},
	"show":    {"get", "list", "inbox"},
	"start":   {"serve"},
	"stat":    {"status"},
	"stats":   {"status", "top"},
	"unset":   {"delete"},
	"update":  {"set"},
	"verify":  {"audit"},
	"why":     {"explain"},
}

// suggest returns what a command may have been meant by an unknown name: among its actions, the commands below it, and those below these.
func suggest(cmd *cobra.Command, name string, actions ...string) []string {
	direct, all := slices.Clone(actions), slices.Clone(actions)
	for _, sub := range cmd.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		direct, all = append(direct, sub.Name()), append(all, sub.Name())
		for _, below := range sub.Commands() {
			all = append(all, sub.Name()+" "+below.Name())
		}
	}
	name = strings.ToLower(name)
	found := program.Nearest(name, direct)
	for _, known := range all {
		if slices.Contains(alike[name], known) || strings.HasSuffix(known, " "+name) {
			found = append(found, known)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// unknownCommand returns the error for a command or an action that does not exist, with those that may have been meant.
func unknownCommand(cmd *cobra.Command, name string, actions ...string) error {
	hint := ""
	if meant := suggest(cmd, name, actions...); len(meant) > 0 {
		hint = "; did you mean " + choice(meant) + "?"
	}
	return program.Usagef("there is no command %q%s", cmd.CommandPath()+" "+name, hint)
}
