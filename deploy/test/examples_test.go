package deploy_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/fanmail/fanmail/config"
)

// Fanmail's part of the examples is a configuration that is allowed.
func TestExamplesAreConfigured(t *testing.T) {
	t.Parallel()
	cfg := loads(t, read(t, "examples", "mongodb-sharded", "fanmail.yaml"), map[string]string{"FANMAIL_MONGODB_URI_FILE": "mongodb-uri"})
	require.Equal(t, config.StoreMongoDB, cfg.Store)
	require.Equal(t, 3, cfg.NATS.Replicas)
}

// The configurations of MongoDB's servers are YAML in which nothing is there twice.
func TestExamplesOfMongoDB(t *testing.T) {
	t.Parallel()
	for file, role := range map[string]string{"shard.conf": "shardsvr", "config.conf": "configsvr", "mongos.conf": ""} {
		var server struct {
			Net struct {
				TLS struct {
					Mode string `yaml:"mode"`
				} `yaml:"tls"`
			} `yaml:"net"`
			Security struct {
				ClusterAuthMode string `yaml:"clusterAuthMode"`
			} `yaml:"security"`
			Sharding struct {
				ClusterRole string `yaml:"clusterRole"`
			} `yaml:"sharding"`
		}
		require.NoError(t, yaml.Unmarshal([]byte(read(t, "examples", "mongodb-sharded", file)), &server))
		require.Equal(t, role, server.Sharding.ClusterRole, file)
		require.Equal(t, "requireTLS", server.Net.TLS.Mode, file)
		require.Equal(t, "x509", server.Security.ClusterAuthMode, file)
	}
}
