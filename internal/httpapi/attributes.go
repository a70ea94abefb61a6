package httpapi

import (
	"net/http"

	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/client"
)

func (s *server) listAttributes(w *response, r *http.Request) error {
	declared, err := s.Settings.Attributes(r.Context())
	if err != nil {
		return err
	}
	answer := client.AttributeList{Attributes: make([]client.Attribute, len(declared))}
	for i, d := range declared {
		answer.Attributes[i] = client.Attribute{Name: d.Name, Type: d.Type}
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, answer)
}

func (s *server) attribute(w *response, r *http.Request) error {
	name := r.PathValue("name")
	if err := attribute.ValidateName(name); err != nil {
		return err
	}
	d, err := s.Settings.Attribute(r.Context(), name)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, client.ContentJSON, client.Attribute{Name: d.Name, Type: d.Type})
}

func (s *server) declareAttribute(w *response, r *http.Request) error {
	var body struct {
		Type attribute.Type `json:"type"`
	}
	if err := readObject(w, r, smallBytes, &body); err != nil {
		return err
	}
	name := r.PathValue("name")
	declared, err := s.Settings.Declare(r.Context(), name, body.Type)
	if err != nil {
		return err
	}
	if !declared {
		return noContent(w)
	}
	s.line(w, s.opts.Logger.Info()).Str("attribute", name).Str("type", string(body.Type)).Msg("an attribute was declared")
	w.WriteHeader(http.StatusCreated)
	return nil
}

func (s *server) deleteAttribute(w *response, r *http.Request) error {
	name := r.PathValue("name")
	if err := attribute.ValidateName(name); err != nil {
		return err
	}
	removed, err := s.Settings.Undeclare(r.Context(), name)
	if err != nil {
		return err
	}
	if removed {
		s.line(w, s.opts.Logger.Info()).Str("attribute", name).Msg("an attribute is not declared any more")
	}
	return noContent(w)
}
