package embedded

import (
	"context"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/fanmail/fanmail/internal/backup"
	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
)

// Restore restores the backup in a folder to a data folder: see backup.Restore. It starts a NATS server for the streams.
func Restore(ctx context.Context, dir, data string, logger zerolog.Logger) error {
	return backup.Restore(dir, data, func(saved, data string) (err error) {
		server, err := natsserver.Start(ctx, natsserver.Options{Dir: filepath.Join(data, "nats"), MaxStoreBytes: maxStreamBytes, Logger: logger})
		if err != nil {
			return err
		}
		defer server.Stop()
		return natsbus.Restore(ctx, server, saved)
	})
}
