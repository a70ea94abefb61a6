package docs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/auth"
	"github.com/fanmail/fanmail/pkg/client"
)

// kinds has a check for every language that a block may have. What a block in sh, console or js does is checked by the tests that run them,
// which need programs beside Go.
var kinds = map[string]func(*testing.T, block) error{
	"sh": nil, "console": nil, "js": nil,
	"json": checkJSON, "yaml": checkYAML, "ini": checkUnit,
	"go": checkExcerpt, "python": checkExcerpt, "javascript": checkExcerpt,
}

// TestKinds checks every block that is not a command: it parses, is what Fanmail reads or sends, or is part of a program that a test runs.
// A block of another language needs a comment that says why it is left.
func TestKinds(t *testing.T) {
	t.Parallel()
	checked, left := 0, 0
	for _, b := range everyBlock(t) {
		check, known := kinds[b.language]
		switch {
		case !known && b.left == "":
			t.Errorf("%s is in %q: no test checks that; give the language, or say <!-- not run: WHY -->", b.at(), b.language)
		case !known:
			left++
		case command(b) && b.left == "" && elsewhere.MatchString(b.text):
			t.Errorf("%s cannot run on every machine: put <!-- not run: WHY --> before it", b.at())
		case check != nil:
			checked++
			if err := check(t, b); err != nil {
				t.Errorf("%s: %v", b.at(), err)
			}
		}
	}
	t.Logf("%d blocks were checked, %d are in a language without a check", checked, left)
}

// elsewhere finds programs that a machine with the tests may lack, or that would change it.
var elsewhere = regexp.MustCompile(`(?m)(^|[;&|(]\s*)(docker|kubectl|helm|systemctl|mongosh|nats|make|prometheus|promtool)\b`)

// answers returns a value of every type that the documented JSON may have: what the server answers and emits.
func answers() []any {
	return []any{
		new(client.Receipt), new(client.AnswerLine), new(client.Status), new(client.BatchResult), new(client.User), new(client.Login), new(client.InboxPage), new(client.Frame),
		new(client.MessagePage), new(client.InboxCounts), new(client.ValueCounts), new(client.UserPage), new(client.DeadLetterPage), new(client.Problem),
		new(client.Explanation), new(client.AuditLine), new(client.AttributeList), new(client.TopicPage), new(rehydrated), new(readiness),
	}
}

// rehydrated is the event that an inbox was rebuilt.
type rehydrated struct {
	V         int    `json:"v"`
	User      string `json:"user"`
	Recovered int64  `json:"recovered"`
}

// readiness is the answer of a server that is ready.
type readiness struct {
	Status  string          `json:"status"`
	Limited []client.Reason `json:"limited,omitempty"`
}

// checkJSON requires that each line of a block is JSON with the fields of one of the answers.
func checkJSON(_ *testing.T, b block) error {
	for line := range strings.Lines(b.text) {
		var errs []error
		fits := false
		for _, answer := range answers() {
			decoder := json.NewDecoder(strings.NewReader(elided.ReplaceAllString(line, "$1")))
			decoder.DisallowUnknownFields()
			err := decoder.Decode(answer)
			fits = fits || err == nil
			errs = append(errs, fmt.Errorf("%T: %w", answer, err))
		}
		if !fits {
			return fmt.Errorf("no answer looks like %s%w", line, errors.Join(errs...))
		}
	}
	return nil
}

// elided finds what stands for the rest of a value.
var elided = regexp.MustCompile(`([0-9a-f]{4})…`)

// checkYAML loads the tokens and the configurations of Fanmail that a page shows.
func checkYAML(t *testing.T, b block) error {
	t.Helper()
	var top map[string]any
	if err := yaml.Unmarshal([]byte(b.text), &top); err != nil {
		return err
	}
	file := filepath.Join(t.TempDir(), "shown.yaml")
	text := elided.ReplaceAllStringFunc(b.text, func(hash string) string { return strings.Repeat(hash[:4], 16) })
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	if _, tokens := top["tokens"]; tokens {
		_, err := auth.New(auth.Options{TokensFile: file, Now: time.Now, Logger: zerolog.Nop()})
		return err
	}
	_, err := config.Load(config.Options{File: file})
	return err
}

var (
	section = regexp.MustCompile(`^\[[A-Za-z]+\]$`)
	setting = regexp.MustCompile(`^[A-Z][A-Za-z]+=\S`)
	key     = regexp.MustCompile(`\bFANMAIL_[A-Z0-9_]+`)
)

// checkUnit checks a part of a systemd unit: its lines are sections and settings, and its FANMAIL_ variables are keys of the configuration.
func checkUnit(_ *testing.T, b block) error {
	keys := map[string]bool{}
	for _, k := range config.Keys() {
		keys[k.Env] = true
	}
	for line := range strings.Lines(b.text) {
		line = strings.TrimSuffix(line, "\n")
		if !section.MatchString(line) && !setting.MatchString(line) {
			return fmt.Errorf("%q is neither a section nor a setting", line)
		}
		for _, name := range key.FindAllString(line, -1) {
			if !keys[name] {
				return fmt.Errorf("%s is no key of the configuration", name)
			}
		}
	}
	return nil
}

// checkExcerpt requires that a block is a part of a program in docs/examples, or of an example of pkg/client. Tests run all of these. The
// block may be indented less.
func checkExcerpt(_ *testing.T, b block) error {
	found := false
	errs := errors.Join(
		filepath.WalkDir(filepath.Join(root, "docs/examples"), func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			source, err := os.ReadFile(name)
			found = found || contains(string(source), b.text)
			return err
		}),
		func() error {
			source, err := os.ReadFile(filepath.Join(root, "pkg/client/example_test.go"))
			found = found || contains(string(source), b.text)
			return err
		}(),
	)
	if errs == nil && !found {
		return errors.New("no example has these lines: copy them from docs/examples or pkg/client/example_test.go")
	}
	return errs
}

// contains reports whether successive lines of a source are an excerpt, apart from an indentation that all its lines lack.
func contains(source, excerpt string) bool {
	lines, wanted := strings.Split(source, "\n"), strings.Split(strings.TrimSuffix(excerpt, "\n"), "\n")
	for first := 0; first+len(wanted) <= len(lines); first++ {
		indent, found := strings.CutSuffix(lines[first], wanted[0])
		if !found || strings.TrimSpace(indent) != "" {
			continue
		}
		for i, line := range wanted {
			if line != "" {
				line = indent + line
			}
			found = found && lines[first+i] == line
		}
		if found {
			return true
		}
	}
	return false
}

func TestContains(t *testing.T) {
	t.Parallel()
	const source = "func f() {\n\tif x {\n\t\treturn\n\n\t}\n}\n"
	for excerpt, found := range map[string]bool{
		"if x {\n\treturn\n\n}\n":     true,
		"\tif x {\n\t\treturn\n\n\t}": true,
		"if x {\n\treturn\n}\n":       false,
		"if x {\n\t\treturn\n\n}\n":   false,
		"x {\n":                       false,
	} {
		require.Equal(t, found, contains(source, excerpt), excerpt)
	}
}

// TestChecksFail requires that the checks refuse what they are for.
func TestChecksFail(t *testing.T) {
	t.Parallel()
	for language, texts := range map[string][]string{
		"json":   {"{\n", `{"id":"01a1fdce-6ea3-7263-8757-d901a0f5ee19","author":"ann"}` + "\n"},
		"yaml":   {"store: [\n", "store: nowhere\n", "tokens:\n  - {name: a, sha256: 0c5f…, scopes: [everything]}\n"},
		"ini":    {"[Service\n", "[Service]\nEnvironment=FANMAIL_NOWHERE=:80\n"},
		"go":     {"c, err := client.New(nowhere)\n"},
		"python": {"import urllib3\n"},
	} {
		for _, text := range texts {
			require.Error(t, kinds[language](t, block{page: "a.md", language: language, text: text}), text)
		}
	}
	require.NoError(t, checkYAML(t, block{text: "tokens:\n  - {name: a, sha256: 0c5f…, scopes: [publish], senders: [ann]}\n"}))
	require.NoError(t, checkYAML(t, block{text: "store: embedded\n"}))
}
