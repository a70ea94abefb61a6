package httpapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/fanmail/fanmail/internal/backup"
	"github.com/fanmail/fanmail/pkg/client"
)

// backup saves the embedded store. That may take longer than other requests, so it has no deadline.
func (s *server) backup(w *response, r *http.Request) error {
	if s.Backup == nil {
		return refuse(client.ProblemConflict, "", "only 'fanmail serve' on the embedded store makes backups: save MongoDB by its own tools")
	}
	var body client.BackupRequest
	if err := readObject(w, r, smallBytes, &body); err != nil {
		return err
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // a connection may lack these calls, and has no deadlines then
	_ = control.SetWriteDeadline(time.Time{})
	longestPause, err := s.Backup.Save(r.Context(), body.Dir)
	switch {
	case errors.Is(err, backup.ErrRunning), errors.Is(err, backup.ErrNowhere):
		return refuse(client.ProblemConflict, "", "%s", err)
	case err != nil:
		return err
	}
	s.line(w, s.opts.Logger.Info()).Str("dir", body.Dir).Stringer("longest_pause", longestPause).Msg("a backup was made")
	return writeJSON(w, http.StatusOK, client.ContentJSON, client.Backup{LongestPause: longestPause.String()})
}
