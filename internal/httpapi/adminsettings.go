package httpapi

import (
	"net/http"

	"github.com/fanmail/fanmail/pkg/client"
)

func (s *server) listSettings(w *response, r *http.Request) error {
	entries, err := s.Settings.List(r.Context())
	if err != nil {
		return err
	}
	answer := client.SettingList{Settings: make([]client.Setting, len(entries))}
	for i, e := range entries {
		answer.Settings[i] = client.Setting{Key: e.Key, Recorded: e.Recorded, Configured: e.Configured, Since: client.Time{Time: e.Since}}
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, answer)
}

func (s *server) changeSetting(w *response, r *http.Request) error {
	var body client.SettingChange
	if err := readObject(w, r, smallBytes, &body); err != nil {
		return err
	}
	key := r.PathValue("key")
	changed, err := s.Settings.Change(r.Context(), key, body.Value, body.DryRun, body.Confirm)
	if err != nil {
		return err
	}
	if changed && !body.DryRun {
		s.line(w, s.opts.Logger.Info()).Str("key", key).Str("value", body.Value).Msg("a setting was changed")
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, client.SettingEffect{Changed: changed})
}

func (s *server) processes(w *response, r *http.Request) error {
	processes, err := s.Settings.Processes(r.Context())
	if err != nil {
		return err
	}
	answer := client.ProcessList{Processes: make([]client.Process, len(processes))}
	for i, p := range processes {
		answer.Processes[i] = client.Process{
			Name: p.Name, Role: p.Role, Host: p.Host, Version: p.Version, Address: p.Address, State: p.State,
			Started: client.Time{Time: p.Started}, Seen: client.Time{Time: p.Seen},
		}
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, answer)
}
