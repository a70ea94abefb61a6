package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
)

// greatestExposure is what systemd-analyze security may come to at most, of 100: "OK" begins below 20.
const greatestExposure = "15"

// units returns the names of all units, an instance for a template.
func units(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(deploy + "/systemd/*.*")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	names := make([]string, len(files))
	for i, file := range files {
		names[i] = strings.Replace(filepath.Base(file), "@.", "@01.", 1)
	}
	return names
}

// host makes the folders of a host on which the units and the programs are installed beside those of systemd.
func host(t *testing.T) string {
	t.Helper()
	// Files, not links to them: systemd follows links from the root that it is given.
	host := t.TempDir()
	require.NoError(t, os.MkdirAll(host+"/usr/local/bin", 0o700))
	for _, name := range roles {
		require.NoError(t, os.Link(filepath.Join(binaries(t), name), filepath.Join(host, "usr/local/bin", name)))
	}
	require.NoError(t, os.CopyFS(host+"/etc/systemd/system", os.DirFS(deploy+"/systemd")))
	const shipped = "/usr/lib/systemd/system"
	require.NoError(t, os.MkdirAll(host+shipped, 0o700))
	targets, err := filepath.Glob(shipped + "/*.target")
	require.NoError(t, err)
	for _, target := range targets {
		unit, err := os.ReadFile(target)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(host+target, unit, 0o600))
	}
	return host
}

func TestUnits(t *testing.T) {
	t.Parallel()
	host := host(t)
	said, err := run(t, ".", "systemd-analyze", append([]string{"verify", "--root=" + host}, units(t)...)...)
	require.NoError(t, err, said)
	require.Empty(t, said)

	// What is wrong is told.
	broken := host + "/etc/systemd/system/broken.service"
	require.NoError(t, os.WriteFile(broken, []byte("[Service]\nExecStart=/usr/local/bin/publisher\nProtectSystems=strict\n"), 0o600))
	said, _ = run(t, ".", "systemd-analyze", "verify", "--root="+host, "broken.service")
	require.Contains(t, said, "ProtectSystems")
}

func TestUnitsAreConfined(t *testing.T) {
	t.Parallel()
	host := host(t)
	for _, unit := range units(t) {
		if strings.HasSuffix(unit, ".target") {
			continue
		}
		said, err := run(t, ".", "systemd-analyze", "security", "--no-pager", "--offline=true", "--root="+host, "--threshold="+greatestExposure, unit)
		require.NoError(t, err, said)
		lines := strings.Split(strings.TrimSpace(said), "\n")
		t.Log(lines[len(lines)-1])
	}
}

var setting = regexp.MustCompile(`(?m)^(\w+)=(.*)$`)

// settings returns the settings of a unit, in which each may be there several times.
func settings(t *testing.T, unit string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, match := range setting.FindAllStringSubmatch(read(t, "systemd", strings.Replace(unit, "@01.", "@.", 1)), -1) {
		found[match[1]] = append(found[match[1]], match[2])
	}
	return found
}

func TestUnitsAreConfigured(t *testing.T) {
	t.Parallel()
	for _, unit := range units(t) {
		if strings.HasSuffix(unit, ".target") {
			continue
		}
		unit := settings(t, unit)
		env := map[string]string{}
		for _, assignment := range unit["Environment"] {
			name, value, _ := strings.Cut(assignment, "=")
			env[name] = strings.ReplaceAll(value, "%i", "01")
		}
		if env["FANMAIL_MONGODB_URI_FILE"] != "" { // as /etc/fanmail/fanmail.yaml of docs/deployment.md does
			env["FANMAIL_STORE"] = config.StoreMongoDB
		}
		cfg := loads(t, "", env)
		for _, credential := range unit["LoadCredential"] {
			name, _, _ := strings.Cut(credential, ":")
			require.Contains(t, strings.Join(unit["Environment"], "\n"), "=%d/"+name, "a secret that nothing refers to")
		}
		if unit["Type"][0] == "oneshot" {
			continue
		}
		stop, err := time.ParseDuration(unit["TimeoutStopSec"][0])
		require.NoError(t, err)
		requireOutlasts(t, stop, cfg)
		require.Equal(t, []string{"on-failure"}, unit["Restart"])
		require.NotEmpty(t, env["FANMAIL_AUTH_TOKENS_FILE"], "an operator may let it listen where others can reach it")
	}
}
