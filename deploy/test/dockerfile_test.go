package deploy_test

import (
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/stretchr/testify/require"
)

// roles are the programs of the image.
var roles = []string{"fanmail", "fanout-worker", "publisher", "rehydrator"}

// dockerfile is the Dockerfile, as far as it matters here.
type dockerfile struct {
	stages []instructions.Stage
	// build is the command that builds the programs into the folder out, in the environment env.
	build, out string
	env        []string
}

func readDockerfile(t *testing.T) (file dockerfile) {
	t.Helper()
	parsed, err := parser.Parse(strings.NewReader(read(t, "Dockerfile")))
	require.NoError(t, err)
	var warnings []string
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, message string, _ []parser.Range) {
		warnings = append(warnings, rule+": "+message)
	}})
	file.stages, _, err = instructions.Parse(parsed.AST, lint)
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Len(t, file.stages, 2)
	for _, command := range file.stages[0].Commands {
		switch c := command.(type) {
		case *instructions.ArgCommand:
			for _, arg := range c.Args {
				if arg.Value != nil { // the others are the builder's to fill in
					file.env = append(file.env, arg.Key+"="+*arg.Value)
				}
			}
		case *instructions.EnvCommand:
			for _, pair := range c.Env {
				if !strings.HasPrefix(pair.Value, "$") { // what the builder fills in is this machine's
					file.env = append(file.env, pair.Key+"="+pair.Value)
				}
			}
		case *instructions.RunCommand:
			if line := strings.Join(c.CmdLine, " "); strings.HasPrefix(line, "go build") {
				file.build = line
			}
		}
	}
	require.NotEmpty(t, file.build)
	_, after, found := strings.Cut(file.build, " -o ")
	require.True(t, found)
	file.out, _, _ = strings.Cut(after, " ")
	return file
}

// The image has no shell, no libraries and no root: the programs have to do with nothing but themselves.
func TestImage(t *testing.T) {
	t.Parallel()
	file := readDockerfile(t)
	image := file.stages[1]
	require.Equal(t, "scratch", image.BaseName)
	copied := map[string]string{}
	user, labels := "", map[string]string{}
	for _, command := range image.Commands {
		switch c := command.(type) {
		case *instructions.CopyCommand:
			require.Equal(t, file.stages[0].Name, c.From)
			for _, source := range c.SourcePaths {
				copied[source] = c.DestPath
			}
		case *instructions.UserCommand:
			user = c.User
		case *instructions.LabelCommand:
			for _, pair := range c.Labels {
				labels[pair.Key] = pair.Value
			}
		}
	}
	require.Equal(t, "/usr/local/bin/", copied[file.out])
	require.Equal(t, "/etc/ssl/certs/", copied["/etc/ssl/certs/ca-certificates.crt"])
	require.Equal(t, "65532:65532", user)
	require.Equal(t, "Apache-2.0", strings.Trim(labels["org.opencontainers.image.licenses"], `"`))
}

func TestBinariesAreStatic(t *testing.T) {
	t.Parallel()
	dir := binaries(t)
	built, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, entry := range built {
		names = append(names, entry.Name())
	}
	require.Equal(t, roles, names)
	for _, name := range names {
		binary, err := elf.Open(filepath.Join(dir, name))
		require.NoError(t, err)
		defer func() { require.NoError(t, binary.Close()) }()
		for _, segment := range binary.Progs {
			require.NotEqual(t, elf.PT_INTERP, segment.Type, "%s asks for an interpreter", name)
		}
		libraries, err := binary.ImportedLibraries()
		require.NoError(t, err)
		require.Empty(t, libraries, name)
		require.Contains(t, output(t, ".", filepath.Join(dir, name), "--version"), name)
	}
}

// The default command needs no configuration, and no other host can reach what it starts. With authentication, others can.
func TestImageStartsWithoutConfiguration(t *testing.T) {
	t.Parallel()
	env := map[string]string{}
	var command []string
	for _, c := range readDockerfile(t).stages[1].Commands {
		switch c := c.(type) {
		case *instructions.EnvCommand:
			for _, pair := range c.Env {
				env[pair.Key] = pair.Value
			}
		case *instructions.CmdCommand:
			command = c.CmdLine
		}
	}
	require.Equal(t, ":8080", env["FANMAIL_ADDR"])
	require.Equal(t, "fanmail", command[0])
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	text := fmt.Sprintf("tokens:\n  - { name: admin, sha256: %x, scopes: [admin] }\n", sha256.Sum256([]byte("secret")))
	require.NoError(t, os.WriteFile(tokens, []byte(text), 0o600))
	for auth, host := range map[string]string{"": `127\.0\.0\.1`, "FANMAIL_AUTH_TOKENS_FILE=" + tokens: `(\[::\]|0\.0\.0\.0)`} {
		log, _ := start(t, []string{"FANMAIL_ADDR=:0", "FANMAIL_DATA=" + t.TempDir(), auth}, command[1:]...)
		require.Regexp(t, "^http://"+host+":", log.url())
		require.Equal(t, auth == "", strings.Contains(log.String(), "no authentication is configured"), log)
	}
}

// The compiler of the image is the one that go.mod asks for.
func TestImageCompiler(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	_, version, _ := strings.Cut(read(t, "Dockerfile"), "ARG GO_VERSION=")
	version, _, _ = strings.Cut(version, "\n")
	require.Contains(t, string(mod), "\ngo "+version+".")
	workflow := read(t, "..", ".github", "workflows", "ci.yaml")
	require.Equal(t, 2, strings.Count(workflow, "golang:"+version+"-bookworm"), "the tests run with the same compiler")
	require.Equal(t, 2, strings.Count(workflow, "golang:"))
}

// What git tracks is in the context: were it left out, git would call the working tree changed, and so would the version.
func TestImageContext(t *testing.T) {
	t.Parallel()
	var patterns []string
	for line := range strings.Lines(read(t, "Dockerfile.dockerignore")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			patterns = append(patterns, ":(glob)"+line, ":(glob)"+line+"/**")
		}
	}
	require.NotEmpty(t, patterns)
	require.Empty(t, output(t, root, "git", append([]string{"ls-files", "--"}, patterns...)...))
}
