package pebblestore_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/internal/pulse"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/flag"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// A closed store has no metrics, and a scrape of it does no harm.
func TestMetricsOfAClosedStore(t *testing.T) {
	t.Parallel()
	measured := prometheus.NewRegistry()
	opts := options(t, vfs.NewMem())
	opts.Metrics = measured
	db, err := pebblestore.Open(t.Context(), "store", opts)
	require.NoError(t, err)
	n, err := testutil.GatherAndCount(measured, "fanmail_embedded_size_bytes")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, db.Close())
	n, err = testutil.GatherAndCount(measured, "fanmail_embedded_size_bytes")
	require.NoError(t, err)
	require.Zero(t, n)
}

// Every method of every store interface refuses a call of a closed store. The call is measured once, under its own name and with its
// result, and counts in the pulse of its context.
func TestEveryMethodIsMeasured(t *testing.T) {
	t.Parallel()
	measured := prometheus.NewRegistry()
	opts := options(t, vfs.NewMem())
	opts.Metrics = measured
	db, err := pebblestore.Open(t.Context(), "store", opts)
	require.NoError(t, err)
	require.NoError(t, db.Inbox().Persist(t.Context()))
	require.Equal(t, map[string]float64{"inbox.persist": 0}, failures(t, measured))
	require.NoError(t, db.Close()) // so that every call fails
	require.NoError(t, db.Close(), "closing again does nothing")
	var beating pulse.Pulse
	for _, store := range []struct {
		prefix        string
		interfaceType reflect.Type
		store         any
	}{
		{"messages", reflect.TypeFor[message.Store](), db.Messages()},
		{"keys", reflect.TypeFor[message.KeyStore](), db.Keys()},
		{"inbox", reflect.TypeFor[bucket.Store](), db.Inbox()},
		{"users", reflect.TypeFor[userstate.Store](), db.Users()},
		{"edges", reflect.TypeFor[follow.Store](), db.Edges()},
		{"progress", reflect.TypeFor[progress.Store](), db.Progress()},
		{"identities", reflect.TypeFor[identity.Store](), db.Identities()},
		{"topics", reflect.TypeFor[topic.Store](), db.Topics()},
		{"flags", reflect.TypeFor[flag.Store](), db.Flags()},
	} {
		for declared := range store.interfaceType.Methods() {
			if declared.Name == "Size" {
				continue // it reads nothing
			}
			before, beats := failures(t, measured), beating.Beats()
			method := reflect.ValueOf(store.store).MethodByName(declared.Name)
			args := []reflect.Value{reflect.ValueOf(beating.Of(t.Context()))}
			for i := 1; i < method.Type().NumIn(); i++ {
				args = append(args, reflect.Zero(method.Type().In(i)))
			}
			results := method.Call(args)
			require.ErrorIs(t, results[len(results)-1].Interface().(error), pebblestore.ErrClosed, declared.Name)
			var changed []string
			for operation, n := range failures(t, measured) {
				if n != before[operation] {
					changed = append(changed, strings.ReplaceAll(operation, "_", ""))
					require.InDelta(t, before[operation]+1, n, 0, operation)
				}
			}
			require.Equal(t, []string{store.prefix + "." + strings.ToLower(declared.Name)}, changed)
			require.Equal(t, beats+1, beating.Beats(), changed)
		}
	}
}

// failures returns how often each measured operation has failed.
func failures(t *testing.T, measured *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := measured.Gather()
	require.NoError(t, err)
	failures := make(map[string]float64)
	for _, family := range families {
		if family.GetName() == "fanmail_store_errors_total" {
			for _, metric := range family.GetMetric() {
				failures[metric.GetLabel()[0].GetValue()] = metric.GetCounter().GetValue()
			}
		}
	}
	return failures
}
