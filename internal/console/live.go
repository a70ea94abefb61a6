package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/fanmail/fanmail/pkg/client"
)

const (
	// lookEvery is how often an open page is looked at.
	lookEvery = time.Second
	// writeWithin is how long the write of one event may take, and heartbeat after how many silent looks a comment is sent.
	writeWithin = 20 * time.Second
	heartbeat   = 20
	// mostFollowers is how many open pages are kept current.
	mostFollowers = 64
)

// follow sends the panels of a page that have changed, as server-sent events, until the browser goes, its token ends or the process stops.
func (s *server) follow(w http.ResponseWriter, r *http.Request, build func(*http.Request) page, token string) {
	defer s.followers.Add(-1)
	if s.followers.Add(1) > mostFollowers || !build(r).live {
		refuse(w, http.StatusServiceUnavailable, "This page is not kept current.")
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // or it would end the request
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would keep events back
	send := func(text string) bool {
		_ = control.SetWriteDeadline(s.opts.Now().Add(writeWithin))
		_, err := w.Write([]byte(text))
		return err == nil && control.Flush() == nil
	}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	sent := make(map[string]string)
	for silent := 0; ; silent++ {
		var text strings.Builder
		p := build(r)
		for i, one := range s.show(r, p, token) { //nolint:contextcheck // the request has it
			problem, refused := errors.AsType[*client.Problem](one.err)
			if refused && problem.Status == http.StatusUnauthorized {
				send("event: end\ndata:\n\n") // the page is loaded again, and so asks for a token
				return
			}
			if !p.panels[i].still && sent[one.Name] != one.Body {
				sent[one.Name] = one.Body
				text.WriteString(changed(one))
			}
		}
		if text.Len() == 0 && silent >= heartbeat {
			text.WriteString(":\n\n")
		}
		if text.Len() > 0 {
			if silent = 0; !send(text.String()) {
				return
			}
		}
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			return
		case <-s.opts.Ending:
			return
		}
	}
}

// changed returns the event of a panel.
func changed(one shown) string {
	data, err := json.Marshal(map[string]string{"id": one.Name, "html": one.Body})
	if err != nil {
		panic(err) // texts can always be encoded
	}
	return fmt.Sprintf("event: panel\ndata: %s\n\n", data)
}
