package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// look is a line of the log of looks: a login, or the opening of an inbox.
type look struct {
	User string `json:"user"`
	// By is byLogin or byInbox.
	By string `json:"by"`
	// Was and Recovered are from the server's answer to a login.
	Was       string `json:"was,omitempty"`
	Recovered *int64 `json:"recovered,omitempty"`
	// Tries counts the tries until the first request was answered.
	Tries int `json:"tries"`
	// Asked is the time of the first try, Answered the time of the last answer.
	Asked    time.Time `json:"asked"`
	Answered time.Time `json:"answered"`
	Read     read      `json:"read"`
	// FirstMS and CompleteMS are the milliseconds from the beginning until the first page and until the complete inbox.
	FirstMS    float64  `json:"first_ms"`
	CompleteMS *float64 `json:"complete_ms,omitempty"`
}

// The ways in which a user can look.
const (
	byLogin = "login"
	byInbox = "inbox"
)

// read is the result of reading an inbox: its first page, and sometimes further pages.
type read struct {
	// Asked and Answered are the times of the first page.
	Asked    time.Time `json:"asked"`
	Answered time.Time `json:"answered"`
	IDs      []string  `json:"ids"`
	// Complete is the field complete of the first page.
	Complete bool `json:"complete"`
	// End means that no further page exists.
	End   bool `json:"end"`
	Pages int  `json:"pages"`
}

// viewer makes users look at their inboxes.
type viewer struct {
	*caller
	now func() time.Time
}

// page is a page of an inbox.
type page struct {
	Messages []struct {
		ID string `json:"id"`
	} `json:"messages"`
	Next     *string `json:"next"`
	Complete bool    `json:"complete"`
}

// loginWait is the wait that a login asks the server for.
const loginWait = 20 * time.Second

// login logs a user in. It repeats the login until the inbox is complete.
func (v *viewer) login(ctx context.Context, l *look) error {
	r := request{method: http.MethodPost, path: "/v1/users/" + url.PathEscape(l.User) + "/login?wait=" + loginWait.String()}
	for {
		got, err := v.call(ctx, r)
		if err != nil {
			return err
		}
		l.Tries += got.tries
		var login struct {
			State     string `json:"state"`
			Was       string `json:"was"`
			Recovered *int64 `json:"recovered"`
		}
		if got.status != http.StatusOK && got.status != http.StatusAccepted || json.Unmarshal(got.text, &login) != nil {
			return got.unexpected(r)
		}
		if l.Was == "" {
			l.Was = login.Was
		}
		if got.status == http.StatusOK {
			l.Recovered = login.Recovered
			return nil
		}
	}
}

// open opens an inbox: it reads a page of size messages.
func (v *viewer) open(ctx context.Context, l *look, size int) error {
	asked := v.now().UTC()
	p, tries, err := v.page(ctx, l.User, url.Values{"limit": {strconv.Itoa(size)}})
	if err != nil {
		return err
	}
	l.Read.Pages, l.Read.Asked, l.Read.Answered, l.Read.Complete, l.Read.End = 1, asked, v.now().UTC(), p.Complete, p.Next == nil
	if l.Tries == 0 {
		l.Tries = tries
	}
	for _, m := range p.Messages {
		l.Read.IDs = append(l.Read.IDs, m.ID)
	}
	return nil
}

// awaitComplete waits until an inbox is complete. It peeks, so this does not count as a look. If that takes long, the user looks again each time,
// because a crash can lose the first look.
func (v *viewer) awaitComplete(ctx context.Context, user string) error {
	query := url.Values{"limit": {"1"}}
	for pause := time.Millisecond; ; pause = min(2*pause, lastPause) {
		query.Set("peek", strconv.FormatBool(pause < lastPause))
		p, _, err := v.page(ctx, user, query)
		if err != nil || p.Complete {
			return err
		}
		if err := rest(ctx, pause); err != nil {
			return fmt.Errorf("inbox of %s is not complete: %w", user, err)
		}
	}
}

func (v *viewer) page(ctx context.Context, user string, query url.Values) (p page, tries int, err error) {
	r := request{method: http.MethodGet, path: "/v1/users/" + url.PathEscape(user) + "/inbox?" + query.Encode()}
	got, err := v.call(ctx, r)
	if err != nil || got.status == http.StatusNotFound { // a crash can lose the first look of a user
		return p, got.tries, err
	}
	if got.status != http.StatusOK || json.Unmarshal(got.text, &p) != nil {
		return p, got.tries, got.unexpected(r)
	}
	return p, got.tries, nil
}

// begin returns a look that begins now.
func (v *viewer) begin(user, by string) look {
	return look{User: user, By: by, Asked: v.now().UTC(), Read: read{IDs: []string{}}}
}

// millis returns the milliseconds since the look began.
func (v *viewer) millis(l *look) float64 {
	return float64(v.now().Sub(l.Asked).Microseconds()) / 1000
}
