package config_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
)

func TestSecretsAreMasked(t *testing.T) {
	t.Parallel()
	for address, want := range map[config.URL]string{
		"mongodb://127.0.0.1:27017":                                     "mongodb://127.0.0.1:27017",
		"mongodb://bob:secret@a:1,b:2/?replicaSet=r":                    "mongodb://bob:*****@a:1,b:2/?replicaSet=r",
		"mongodb://bob:se@cret/x@a:1":                                   "mongodb://bob:*****@a:1",
		"mongodb://bob@a:1/?authMechanism=MONGODB-X509":                 "mongodb://bob@a:1/?authMechanism=MONGODB-X509",
		"mongodb://a/?tlsCertificateKeyFilePassword=secret&tls=true":    "mongodb://a/?tlsCertificateKeyFilePassword=*****&tls=true",
		"mongodb://a/?authMechanismProperties=AWS_SESSION_TOKEN:secret": "mongodb://a/?authMechanismProperties=*****",
		"nats://secret@a:4222":                                          "nats://*****@a:4222",
		"tls://secret@a:4222,tls://bob:secret@b:4222":                   "tls://*****@a:4222,tls://bob:*****@b:4222",
		"nats://a:4222,nats://b:4222":                                   "nats://a:4222,nats://b:4222",
	} {
		require.Equal(t, want, address.String())
		require.Equal(t, want, fmt.Sprintf("%v", address))
		require.NotContains(t, fmt.Sprintf("%q", address), "secret")
	}
}

func TestCheckMongoURI(t *testing.T) {
	t.Parallel()
	require.NoError(t, config.CheckMongoURI("mongodb://bob:secret@a:1,b:2/?replicaSet=r"))
	for _, bad := range []string{"", "bob:secret@host", "http://bob:secret@host", "mongodb://"} {
		require.EqualError(t, config.CheckMongoURI(bad), "must begin with mongodb:// or mongodb+srv:// and the name of a host")
	}
}
