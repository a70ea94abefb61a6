package deploy_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
)

// compose loads compose.yaml as docker compose does: against the schema, with what it refers to.
func compose(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{deploy + "/compose.yaml"},
		cli.WithInterpolation(true), cli.WithResolvedPaths(true), cli.WithConsistency(true))
	require.NoError(t, err)
	project, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	return project
}

func TestCompose(t *testing.T) {
	t.Parallel()
	project := compose(t)
	for _, name := range project.ServiceNames() {
		service := project.Services[name]
		t.Logf("%-14s %-24s %v", name, service.Image, service.Command)
		for _, port := range service.Ports {
			require.Equal(t, "127.0.0.1", port.HostIP, "%s publishes port %s to everybody", name, port.Published)
		}
		for _, volume := range service.Volumes {
			if volume.Type == types.VolumeTypeBind {
				_, err := os.Stat(volume.Source)
				require.NoError(t, err, "%s mounts a file that is not there", name)
			}
		}
		require.Regexp(t, `^fanmail$|:v?\d+\.\d+`, service.Image, "%s takes whatever version there is", name)
	}
}

// Each role runs a program of the image, with a configuration that is allowed, and without rights that it does not need.
func TestComposeRoles(t *testing.T) {
	t.Parallel()
	project := compose(t)
	var running []string
	for _, name := range project.ServiceNames() {
		service := project.Services[name]
		if service.Image != "fanmail" {
			continue
		}
		require.Contains(t, roles, service.Command[0])
		running = append(running, service.Command[0])
		cfg := loads(t, "", environment(t, service))
		require.Equal(t, config.StoreMongoDB, cfg.Store)
		requireOutlasts(t, time.Duration(*service.StopGracePeriod), cfg)

		require.Equal(t, "65532:65532", service.User)
		require.True(t, service.ReadOnly)
		require.Equal(t, []string{"ALL"}, service.CapDrop)
		require.Contains(t, service.SecurityOpt, "no-new-privileges:true")
		_, listens := service.Environment["FANMAIL_ADDR"]
		_, authenticates := service.Environment["FANMAIL_AUTH_TOKENS_FILE"]
		require.Equal(t, listens, authenticates, "%s listens where others can reach it", name)
		require.Equal(t, listens, mountsSecret(service, "tokens"))
	}
	require.ElementsMatch(t, roles, running)
	require.Contains(t, read(t, "..", "test", "services", "containers", "run"), ":-"+project.Services["mongodb-1"].Image+"}", "the image that the tests run on")
	require.True(t, project.Networks["data"].Internal, "MongoDB and NATS ask nobody who they are")
	for _, name := range []string{"mongodb-1", "mongodb-2", "mongodb-3", "nats"} {
		require.Equal(t, []string{"data"}, networks(project.Services[name]))
		require.Empty(t, project.Services[name].Ports)
	}
}

// Prometheus has the rules, and finds every role.
func TestComposePrometheus(t *testing.T) {
	t.Parallel()
	prometheus := compose(t).Services["prometheus"]
	var mounted []string
	for _, volume := range prometheus.Volumes {
		mounted = append(mounted, volume.Target)
	}
	require.Contains(t, mounted, "/etc/prometheus/prometheus.yml")
	require.Contains(t, mounted, "/etc/prometheus/fanmail.rules.yaml")
	require.True(t, mountsSecret(prometheus, "metrics-token"))
	scraped := read(t, "compose", "prometheus.yml")
	require.Contains(t, scraped, "names: [publisher, fanout-worker, rehydrator]")
	require.Contains(t, scraped, "credentials_file: /run/secrets/metrics-token")
}

func environment(t *testing.T, service types.ServiceConfig) map[string]string {
	t.Helper()
	env := map[string]string{}
	for name, value := range service.Environment {
		require.True(t, strings.HasPrefix(name, "FANMAIL_"), name)
		require.NotNil(t, value, name)
		env[name] = *value
	}
	return env
}

func mountsSecret(service types.ServiceConfig, name string) bool {
	return slices.ContainsFunc(service.Secrets, func(s types.ServiceSecretConfig) bool { return s.Source == name })
}

func networks(service types.ServiceConfig) []string { return service.NetworksByPriority() }
