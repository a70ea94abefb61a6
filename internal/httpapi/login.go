package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/fanmail/fanmail/internal/duration"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

func (s *server) login(w *response, r *http.Request, user message.UserID) error {
	wait, err := queryWait(r.URL.Query(), client.DefaultLoginWait, client.MaxLoginWait)
	if err != nil {
		return err
	}
	result, err := s.Rehydrate.Login(r.Context(), user, s.opts.Now(), wait)
	if err != nil {
		return err
	}
	answer := client.Login{User: user, State: client.Active, Was: client.Was(result.Was), Recovered: result.Recovered}
	status := http.StatusOK
	if !result.Done {
		answer.State, status = client.Rehydrating, http.StatusAccepted
	}
	return writeJSON(w, status, client.ContentJSON, answer)
}

// queryWait returns how long a request is to wait.
func queryWait(query url.Values, without, most time.Duration) (time.Duration, error) {
	if !query.Has("wait") {
		return without, nil
	}
	text := query.Get("wait")
	wait, err := duration.Parse(text)
	if err != nil || wait < 0 || wait > most {
		return 0, &message.InvalidError{
			Field:  "wait",
			Reason: fmt.Sprintf("is %q: give a duration from 0s to %ds, such as 10s", shorten(text), most/time.Second),
		}
	}
	return wait, nil
}
