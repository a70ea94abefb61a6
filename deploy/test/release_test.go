package deploy_test

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// An archive has static programs without symbols, manual pages and completions. The SBOM beside it names what is in the programs, and
// the checksums are right. The same commit makes the same archive.
func TestRelease(t *testing.T) {
	t.Parallel()
	const name = "fanmail-v1.2.3-linux-amd64"
	first, second, unpacked := t.TempDir(), t.TempDir(), t.TempDir()
	for _, folder := range []string{first, second} {
		said, err := runWith(t, []string{"GOFLAGS=-buildvcs=false"}, root, "tools/release", "v1.2.3", folder, "linux/amd64")
		require.NoError(t, err, said)
	}
	output(t, first, "sha256sum", "--check", "--strict", "SHA256SUMS")
	archive, err := os.ReadFile(filepath.Join(first, name+".tar.gz"))
	require.NoError(t, err)
	again, err := os.ReadFile(filepath.Join(second, name+".tar.gz"))
	require.NoError(t, err)
	require.Equal(t, sha256.Sum256(archive), sha256.Sum256(again), "the same commit made another archive")

	output(t, unpacked, "tar", "--extract", "--file", filepath.Join(first, name+".tar.gz"))
	for _, role := range roles {
		program := filepath.Join(unpacked, name, "bin", role)
		binary, err := elf.Open(program)
		require.NoError(t, err)
		_, err = binary.Symbols()
		require.ErrorIs(t, err, elf.ErrNoSymbols, "%s is not stripped", role)
		require.NoError(t, binary.Close())
		require.Regexp(t, "^"+role+` \S+\n$`, output(t, ".", program, "--version"))
		require.FileExists(t, filepath.Join(unpacked, name, "share/man/man1", role+".1"))
	}
	for _, path := range []string{
		"LICENSE", "README.md", "CHANGELOG.md", "share/man/man1/fanmail-bench-fanout.1", "share/bash-completion/completions/fanmail",
		"share/zsh/site-functions/_fanmail", "share/fish/vendor_completions.d/fanmail.fish", "share/fanmail/fanmail.yaml",
		"share/fanmail/systemd/fanmail.service",
	} {
		content, err := os.ReadFile(filepath.Join(unpacked, name, path))
		require.NoError(t, err)
		require.NotEmpty(t, content, path)
	}

	var sbom struct {
		BOMFormat  string
		Components []struct{ Name, Version, Purl string }
	}
	text, err := os.ReadFile(filepath.Join(first, name+".cdx.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &sbom))
	require.Equal(t, "CycloneDX", sbom.BOMFormat)
	versions := map[string]string{}
	for _, component := range sbom.Components {
		versions[component.Name] = component.Version
	}
	require.Equal(t, required(t, "github.com/nats-io/nats-server/v2"), versions["github.com/nats-io/nats-server/v2"])
	require.NotEmpty(t, versions["std"], "the standard library, of which the programs have a copy")
	require.NotContains(t, versions, "github.com/stretchr/testify", "the tests are not in the programs")
}

// required returns the version of a module that go.mod requires.
func required(t *testing.T, module string) string {
	t.Helper()
	var mod struct {
		Require []struct{ Path, Version string }
	}
	require.NoError(t, json.Unmarshal([]byte(output(t, root, "go", "mod", "edit", "-json")), &mod))
	for _, dependency := range mod.Require {
		if dependency.Path == module {
			return dependency.Version
		}
	}
	require.Fail(t, "go.mod does not require it", module)
	return ""
}
