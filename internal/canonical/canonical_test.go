package canonical_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/canonical"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
)

var update = flag.Bool("update", false, "write the forms of the inputs in the golden tables")

const further = identity.Kind("badge")

var forms = canonical.New([]identity.Kind{further})

func golden(kind identity.Kind) string { return filepath.Join("testdata", string(kind)+".txt") }

func lines(tb testing.TB, kind identity.Kind) []string {
	tb.Helper()
	table, err := os.ReadFile(golden(kind))
	require.NoError(tb, err)
	return strings.Split(strings.TrimSuffix(string(table), "\n"), "\n")
}

func kinds() []identity.Kind { return append(identity.Kinds(), further) }

// A golden table has an input on each line, as a Go string, and its form or what is wrong with it. A form that changes needs a new version.
func TestForms(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			table := lines(t, kind)
			now := make([]string, len(table))
			for i, line := range table {
				quoted, err := strconv.QuotedPrefix(line)
				require.NoError(t, err, line)
				input, err := strconv.Unquote(quoted)
				require.NoError(t, err, line)
				now[i] = quoted + " " + outcome(t, kind, input)
			}
			if *update {
				require.NoError(t, os.WriteFile(golden(kind), []byte(strings.Join(now, "\n")+"\n"), 0o600))
				return
			}
			require.Equal(t, table, now)
		})
	}
}

// outcome returns what a table says of an input.
func outcome(t *testing.T, kind identity.Kind, input string) string {
	t.Helper()
	id, err := forms.Identity(string(kind), input)
	if err == nil {
		require.Equal(t, kind, id.Kind)
		return "-> " + strconv.QuoteToASCII(id.Value)
	}
	var invalid *message.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, "value", invalid.Field)
	return "!! " + invalid.Reason
}

func TestUnknownKinds(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"", "EMAIL", "mail", "joe@example.com", "email "} {
		_, err := forms.Identity(kind, "joe@example.com")
		var invalid *message.InvalidError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, "kind", invalid.Field)
		require.NotContains(t, err.Error(), "joe@", "kind and value may be swapped")
	}
}

// No input panics, a form is its own form and within the bounds, and no error says more than those in the tables, such as the input.
func FuzzIdentity(f *testing.F) {
	reasons := make(map[string]bool)
	for _, kind := range kinds() {
		for _, line := range lines(f, kind) {
			quoted, err := strconv.QuotedPrefix(line)
			require.NoError(f, err)
			input, err := strconv.Unquote(quoted)
			require.NoError(f, err)
			f.Add(string(kind), input)
			if _, reason, found := strings.Cut(line[len(quoted):], " !! "); found {
				reasons[withoutNumbers(reason)] = true
			}
		}
	}
	f.Fuzz(func(t *testing.T, kind, input string) {
		id, err := forms.Identity(kind, input)
		if invalid := new(message.InvalidError); errors.As(err, &invalid) {
			require.True(t, invalid.Field == "kind" || reasons[withoutNumbers(invalid.Reason)], invalid.Reason)
			return
		}
		require.NoError(t, err)
		require.True(t, utf8.ValidString(id.Value))
		require.NotEmpty(t, id.Value)
		require.LessOrEqual(t, len(id.Value), identity.MaxValueBytes)
		again, err := forms.Identity(string(id.Kind), id.Value)
		require.NoError(t, err)
		require.Equal(t, id.Value, again.Value)
	})
}

func withoutNumbers(text string) string { return numbers.ReplaceAllString(text, "N") }

var numbers = regexp.MustCompile(`has \d+ bytes`)
