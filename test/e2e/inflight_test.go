package e2e_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/pebblestore"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/partition"
	"github.com/fanmail/fanmail/pkg/progress"
)

// inFlight counts what a killed server has left to do: messages that are stored and nobody has begun to fan out, and messages
// whose fan-out has begun and is not done. It looks at a copy of the store, so that the next server finds it as it was left.
func (w *world) inFlight(ctx context.Context) (pending, running int) {
	w.Helper()
	dir, err := os.MkdirTemp(w.dir, "left-")
	require.NoError(w, err)
	defer func() { require.NoError(w, os.RemoveAll(dir)) }()
	require.NoError(w, os.CopyFS(dir, os.DirFS(filepath.Join(w.site.Data, "store"))))
	store, err := pebblestore.Open(ctx, dir, pebblestore.Options{
		Partitions: partition.DefaultCount, Now: time.Now, Logger: zerolog.Nop(),
	})
	require.NoError(w, err)
	defer func() { require.NoError(w, store.Close()) }()
	const page = 500
	for after := (message.ID{}); ; {
		refs, err := store.Messages().Unfinished(ctx, after, page)
		require.NoError(w, err)
		for _, ref := range refs {
			after = ref.ID
			fanout, err := store.Progress().Get(ctx, ref.ID)
			switch {
			case errors.Is(err, progress.ErrNotFound):
				pending++
				continue
			case err == nil && !fanout.Done(): // one that is done may be recorded as unfinished still
				running++
			}
			require.NoError(w, err)
		}
		if len(refs) < page {
			return pending, running
		}
	}
}
