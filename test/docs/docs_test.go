// Package docs_test checks the pages of the repository: that relative links and their anchors lead to a file and a heading, that the
// blocks work when they are pasted, and that the examples in docs/examples do what docs/integrate.md says.
package docs_test

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

var (
	fence   = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```[ \t]*$")
	comment = regexp.MustCompile(`(?s)<!--.*?-->`)
	code    = regexp.MustCompile("`[^`\n]*`")
	link    = regexp.MustCompile(`\]\(\s*<?([^)>\s]+)`)
	target  = regexp.MustCompile(`(?m)^\[[^\]]+\]:\s*(\S+)`)
	heading = regexp.MustCompile(`(?m)^#{1,6}[ \t]+(.+?)[ \t]*#*$`)
	linked  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	id      = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N}\p{M} _-]`)
)

// pages returns every Markdown file of the repository, by its path from the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != root):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".md":
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		found[filepath.ToSlash(relative)] = strings.ReplaceAll(string(text), "\r\n", "\n")
		return nil
	}))
	return found
}

// anchors returns the anchors of a page, as GitHub makes them of its headings.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		title := linked.ReplaceAllString(match[1], "$1")
		anchor := strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
		found[unused(found, anchor)] = true
	}
	for _, match := range id.FindAllStringSubmatch(text, -1) {
		found[match[1]] = true
	}
	return found
}

// unused returns the anchor, with the lowest number that makes it a new one where a heading occurs twice.
func unused(found map[string]bool, anchor string) string {
	name := anchor
	for n := 1; found[name]; n++ {
		name = anchor + "-" + string(rune('0'+n))
	}
	return name
}

// links returns the targets of a page's links. Code and comments hold no links.
func links(text string) []string {
	text = code.ReplaceAllString(comment.ReplaceAllString(fence.ReplaceAllString(text, ""), ""), "")
	var found []string
	for _, match := range append(link.FindAllStringSubmatch(text, -1), target.FindAllStringSubmatch(text, -1)...) {
		found = append(found, match[1])
	}
	return found
}

// dead returns why a link of a page leads nowhere, or an empty string.
func dead(all map[string]string, page, to string) string {
	u, err := url.Parse(to)
	switch {
	case err != nil:
		return err.Error()
	case u.Scheme != "" || u.Host != "":
		return "" // elsewhere
	}
	file := page
	if u.Path != "" {
		file = path.Join(path.Dir(page), u.Path)
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
			return "there is no " + file
		}
	}
	if text, isPage := all[file]; u.Fragment != "" && isPage && !anchors(text)[u.Fragment] {
		return file + " has no heading #" + u.Fragment
	}
	return ""
}

func TestLinks(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for _, needed := range []string{"README.md", "CONTRIBUTING.md", "docs/README.md", "docs/adr/README.md", "deploy/examples/nats-cluster/README.md"} {
		require.Contains(t, all, needed)
	}
	checked := 0
	for page, text := range all {
		for _, to := range links(text) {
			checked++
			if why := dead(all, page, to); why != "" {
				t.Errorf("%s links to %s: %s", page, to, why)
			}
		}
	}
	require.Greater(t, checked, 100, "links were found")
}

// decision finds the number of a decision in a text, and in the link around it if there is one.
var decision = regexp.MustCompile(`(?:ADR |\[)(0[0-9]{3})(?:\]\((?:\S*/)?([^)\s]*)\))?`)

// misnumbered returns the numbers of decisions in a page that do not exist, or whose link leads to another decision.
func misnumbered(all map[string]string, text string) (wrong []string) {
	for _, match := range decision.FindAllStringSubmatch(text, -1) {
		exists := false
		for page := range all {
			exists = exists || strings.HasPrefix(page, "docs/adr/"+match[1]+"-")
		}
		if !exists || match[2] != "" && !strings.HasPrefix(match[2], match[1]+"-") {
			wrong = append(wrong, match[1])
		}
	}
	return wrong
}

func TestDecisionNumbers(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for page, text := range all {
		require.Empty(t, misnumbered(all, text), "%s names decisions that do not exist, or by the number of another", page)
	}
	const text = "[ADR 0004](adr/0004-progress-is-the-only-truth.md) [ADR 0005](adr/0004-progress-is-the-only-truth.md) ADR 0002 (ADR 0999)"
	require.Equal(t, []string{"0005", "0999"}, misnumbered(all, text))
}

// TestPages requires that the indexes name every page.
func TestPages(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for index, folder := range map[string]string{"docs/README.md": "docs", "docs/adr/README.md": "docs/adr"} {
		named := map[string]bool{index: true}
		for _, to := range links(all[index]) {
			named[path.Join(folder, to)] = true
		}
		for page := range all {
			if path.Dir(page) == folder {
				require.True(t, named[page], "%s does not link to %s", index, page)
			}
		}
	}
}

func TestDeadLinks(t *testing.T) {
	t.Parallel()
	all := map[string]string{
		"README.md":   "# Fan mail\n\n## What's `new`?\n\n## Twice\n\n## Twice\n\n```\n# no heading\n```\n",
		"docs/a.md":   "# A\n\n`[no](link.md)` <!-- [no](link.md) -->\n\n```\n[no](link.md)\n```\n\n[one](b.md) [two](#a)\n",
		"docs/odd.md": "# [Linked](a.md) _and_ more\n\n<a id=\"here\"></a>\n",
	}
	require.Equal(t, []string{"b.md", "#a"}, links(all["docs/a.md"]))
	for to, why := range map[string]string{
		"https://example.com/x":   "",
		"mailto:ann@example.com":  "",
		"#a":                      "",
		"#b":                      "docs/a.md has no heading #b",
		"../README.md":            "",
		"../README.md#whats-new":  "",
		"../README.md#twice-1":    "",
		"../README.md#twice-2":    "README.md has no heading #twice-2",
		"../README.md#no-heading": "README.md has no heading #no-heading",
		"nowhere.md":              "there is no docs/nowhere.md",
		"../go.mod":               "",
		"../internal":             "",
	} {
		require.Equal(t, why, dead(all, "docs/a.md", to), "%s", to)
	}
	require.Equal(t, map[string]bool{"linked-_and_-more": true, "here": true}, anchors(all["docs/odd.md"]))
}
