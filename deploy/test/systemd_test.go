package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
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

// services returns the names of the units that run programs.
func services(t *testing.T) (names []string) {
	t.Helper()
	for _, unit := range units(t) {
		if strings.HasSuffix(unit, ".service") {
			names = append(names, unit)
		}
	}
	require.NotEmpty(t, names)
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
	for _, program := range []string{"/bin/sh", "/usr/bin/find"} { // of every host
		require.NoError(t, os.MkdirAll(filepath.Dir(host+program), 0o700))
		require.NoError(t, os.WriteFile(host+program, nil, 0o700))
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
	for _, unit := range services(t) {
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
	for _, unit := range services(t) {
		unit := settings(t, unit)
		env := map[string]string{}
		for _, assignment := range unit["Environment"] {
			name, value, _ := strings.Cut(assignment, "=")
			env[name] = strings.ReplaceAll(value, "%i", "01")
		}
		if env["FANMAIL_MONGODB_URI_FILE"] != "" { // as /etc/fanmail/fanmail.yaml of docs/deployment.md does
			env["FANMAIL_STORE"] = config.StoreMongoDB
		}
		for _, credential := range unit["LoadCredential"] {
			name, _, _ := strings.Cut(credential, ":")
			require.Contains(t, strings.Join(unit["Environment"], "\n"), "=%d/"+name, "a secret that nothing refers to")
		}
		if env["FANMAIL_TOKEN_FILE"] != "" { // a client, which has no configuration
			require.NotEmpty(t, unit["TimeoutStartSec"], "a timer starts no second one")
			continue
		}
		cfg := loads(t, "", env)
		if unit["Type"][0] == "oneshot" {
			continue
		}
		stop, err := time.ParseDuration(unit["TimeoutStopSec"][0])
		require.NoError(t, err)
		requireOutlasts(t, stop, cfg)
		require.Equal(t, []string{"on-failure"}, unit["Restart"])
		limit, collected := bytesOf(t, unit["MemoryMax"][0]), bytesOf(t, strings.TrimSuffix(env["GOMEMLIMIT"], "iB"))
		require.InDelta(t, 0.9, collected/limit, 0.01, "the collector has to begin below the limit, and to leave room for the rest")
		require.NotEmpty(t, env["FANMAIL_AUTH_TOKENS_FILE"], "an operator may let it listen where others can reach it")
	}
}

// bytesOf returns a size such as 512M.
func bytesOf(t *testing.T, size string) float64 {
	t.Helper()
	number, err := strconv.ParseFloat(size[:len(size)-1], 64)
	require.NoError(t, err)
	switch size[len(size)-1] {
	case 'M':
		return number * (1 << 20)
	case 'G':
		return number * (1 << 30)
	}
	require.Fail(t, "an unknown unit", size)
	return 0
}

// What a timer starts is there, and the two folders of a backup are one: the server writes it, the unit removes old ones.
func TestTimers(t *testing.T) {
	t.Parallel()
	names := units(t)
	timers := 0
	for _, unit := range names {
		if name, found := strings.CutSuffix(unit, ".timer"); found {
			timers++
			require.Contains(t, names, name+".service")
			require.Equal(t, []string{"yes"}, settings(t, unit)["Persistent"])
		}
	}
	require.Equal(t, 2, timers)
	server, backup := settings(t, "fanmail.service"), settings(t, "fanmail-backup.service")
	require.Equal(t, server["User"], backup["User"])
	require.Contains(t, strings.Fields(server["StateDirectory"][0]), backup["StateDirectory"][0])
	require.Contains(t, server["Environment"], "FANMAIL_BACKUP_DIR=/var/lib/"+backup["StateDirectory"][0])
	for _, command := range []string{backup["ExecStart"][0], backup["ExecStartPost"][0]} {
		require.Contains(t, command, "/var/lib/"+backup["StateDirectory"][0]+"/")
	}
}

// The commands of the backup make a new folder each time, and remove only old ones. They run here as systemd would run them, with
// another program that makes the folder.
func TestBackupFolders(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	unit := settings(t, "fanmail-backup.service")
	command := func(line string) string {
		return strings.NewReplacer("/var/lib/fanmail-backups", folder, "/usr/local/bin/fanmail backup", "mkdir", "$$", "$", "%%", "%").Replace(line)
	}
	for _, age := range []time.Duration{13 * 24 * time.Hour, 16 * 24 * time.Hour} {
		old := filepath.Join(folder, age.String())
		require.NoError(t, os.MkdirAll(filepath.Join(old, "store"), 0o700))
		made := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(old, made, made))
	}
	output(t, ".", "sh", "-c", command(unit["ExecStart"][0]))
	output(t, ".", "sh", "-c", command(unit["ExecStartPost"][0]))
	there, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, there, 2)
	for _, entry := range there {
		if entry.Name() != (13 * 24 * time.Hour).String() {
			require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ$`, entry.Name())
		}
	}
}
