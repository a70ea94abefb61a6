package docs_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// block is a fenced block of a page.
type block struct {
	page string
	// line is the number of the line with the opening fence.
	line     int
	language string
	// text is the block without the indentation of its fence. It ends with a line feed.
	text string
	// left is why no test runs the block, or why no test compares what it shows: the reason in a comment <!-- not run: REASON --> before it,
	// or in a comment <!-- no block is run: REASON --> on a page.
	left string
	// mongodb means that the block needs MongoDB and NATS: a comment <!-- needs MongoDB and NATS --> before it. Tests run it where they have a
	// MongoDB server, whose URI is then in MONGODB.
	mongodb bool
	// first are commands that a test runs before the block, and that readers do not see: a comment <!-- first: COMMANDS --> before it.
	first string
	// follows reports whether only blank lines separate the block from the block before it. Then it may be that block's output.
	follows bool
}

// at returns the place of the block, for messages.
func (b block) at() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

var (
	open = regexp.MustCompile("^([ \t]*)```([a-z]*)[ \t]*$")
	none = regexp.MustCompile(`<!-- no block is run: (.*?) -->`)
)

// annotate reads into b what the comments at the end of a text say about the block that follows, and returns the text before them.
func annotate(b *block, text string) (rest string) {
	for {
		text = strings.TrimRight(text, " \t\n")
		start := strings.LastIndex(text, "<!--")
		if start < 0 || !strings.HasSuffix(text, "-->") {
			return text
		}
		switch kind, content, _ := strings.Cut(text[start:len(text)-len("-->")], ":"); kind {
		case "<!-- first":
			b.first = strings.TrimSpace(content) + "\n"
		case "<!-- not run":
			b.left = strings.TrimSpace(content)
		case "<!-- needs MongoDB and NATS ":
			b.mongodb = true
		default:
			return text
		}
		text = text[:start]
	}
}

// command reports whether the block is commands for a shell.
func command(b block) bool { return b.language == "sh" || b.language == "console" }

// blocksOf returns the blocks of a page in their order.
func blocksOf(page, text string) ([]block, error) {
	var found []block
	var current *block
	var indent string
	var between strings.Builder // the text since the block before
	for i, line := range strings.Split(text, "\n") {
		switch fence := open.FindStringSubmatch(line); {
		case current == nil && fence != nil:
			current = &block{page: page, line: i + 1, language: fence[2]}
			indent = fence[1]
			rest := annotate(current, between.String())
			current.follows = len(found) > 0 && strings.TrimSpace(rest) == ""
		case current != nil && strings.TrimSpace(line) == "```":
			found = append(found, *current)
			current = nil
			between.Reset()
		case current != nil:
			current.text += strings.TrimPrefix(line, indent) + "\n"
		case strings.Contains(line, "```"):
			return nil, fmt.Errorf("%s:%d: a fence that does not open a block", page, i+1)
		default:
			between.WriteString(line + "\n")
		}
	}
	if current != nil {
		return nil, fmt.Errorf("%s: the block does not end", current.at())
	}
	if why := none.FindStringSubmatch(text); why != nil {
		for i := range found {
			if command(found[i]) && found[i].left == "" {
				found[i].left = why[1]
			}
		}
	}
	return found, nil
}

// blocks returns the blocks of all pages, by page. Decisions and the changelog tell of their time, and docs/commands.md is generated: they
// have no blocks here.
func blocks(t *testing.T) map[string][]block {
	t.Helper()
	found := map[string][]block{}
	for page, text := range pages(t) {
		if strings.HasPrefix(page, "docs/adr/") || page == "CHANGELOG.md" || page == "docs/commands.md" {
			continue
		}
		of, err := blocksOf(page, text)
		require.NoError(t, err)
		if len(of) > 0 {
			found[page] = of
		}
	}
	return found
}

// everyBlock returns the blocks of all pages in a fixed order.
func everyBlock(t *testing.T) (all []block) {
	t.Helper()
	found := blocks(t)
	for _, page := range slices.Sorted(maps.Keys(found)) {
		all = append(all, found[page]...)
	}
	require.Greater(t, len(all), 50, "blocks were found")
	return all
}

func TestBlocksOf(t *testing.T) {
	t.Parallel()
	text := "# A page\n\n```sh\necho one\n```\n```json\n{}\n```\n\n" +
		"- An item\n\n  <!-- first: echo hidden\necho more -->\n  <!-- not run: needs a cluster -->\n  ```sh\n  echo two\n    echo three\n  ```\n\n<!-- a note -->\n\n```\nx\n```\n"
	found, err := blocksOf("a.md", text)
	require.NoError(t, err)
	require.Equal(t, []block{
		{page: "a.md", line: 3, language: "sh", text: "echo one\n"},
		{page: "a.md", line: 6, language: "json", text: "{}\n", follows: true},
		{page: "a.md", line: 15, language: "sh", text: "echo two\n  echo three\n", left: "needs a cluster", first: "echo hidden\necho more\n"},
		{page: "a.md", line: 22, language: "", text: "x\n"},
	}, found)
	found, err = blocksOf("a.md", "<!-- no block is run: needs a cluster -->\n\n```sh\n```\n```json\n{}\n```\n")
	require.NoError(t, err)
	require.Equal(t, []string{"needs a cluster", ""}, []string{found[0].left, found[1].left})
	for _, broken := range []string{"```sh\necho\n", "text ```\n", "```sh run\n```\n"} {
		_, err := blocksOf("a.md", broken)
		require.Error(t, err, broken)
	}
}
