//go:build long

package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// mark is the state of a message that a client holds.
type mark struct{ read, archived bool }

// view is what a client knows of an inbox.
type view struct {
	cursor  string
	held    map[message.ID]mark
	expired message.ID
	version []int64
	tally   client.Tally
	// owed says that what is held is fetched again before it is shown.
	owed bool
}

func (v *view) clone() view {
	c := *v
	c.held = maps.Clone(v.held)
	return c
}

// apply applies a frame, as the documentation of client.Frame says.
func (v *view) apply(f client.Frame) {
	if f.Reset {
		*v = view{held: make(map[message.ID]mark), owed: true} // the frame has a first page only
	}
	for _, m := range f.Messages {
		v.held[m.ID] = mark{m.Read, m.Archived}
	}
	for _, s := range f.Flags {
		if _, known := v.held[s.ID]; known {
			v.held[s.ID] = mark{s.Read, s.Archived}
		}
	}
	for _, id := range f.Gone {
		delete(v.held, id)
	}
	if f.ExpiredUpTo != nil && v.expired.Less(*f.ExpiredUpTo) {
		v.expired = *f.ExpiredUpTo
	}
	v.forget()
	v.owed = v.owed || f.Older
	v.cursor, v.version, v.tally = f.Cursor, f.Version, f.Tally
}

// forget drops what has expired.
func (v *view) forget() {
	maps.DeleteFunc(v.held, func(id message.ID, _ mark) bool { return !v.expired.Less(id) })
}

// follower is a client that knows an inbox by its frames, and by pages where a frame says so. One goroutine runs it.
type follower struct {
	site  string // the URL
	user  message.UserID
	http  *http.Client
	pages *client.Client
	// looks is how many of a hundred requests count as views.
	looks int

	mu sync.Mutex // guards what follows
	view
	resets, resumes int
	retry           time.Duration // the last one
	wrong           error         // the first answer that no client expects
	trouble         error         // of the last request
}

func (f *follower) shown() view {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.clone()
}

func (f *follower) take(frame client.Frame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.apply(frame); frame.Reset {
		f.resets++
	}
}

var errOldPage = errors.New("a page is older than the last frame")

// everyPage returns all messages of an inbox, and the counts of the first page. Pages older than the given version are an error.
func everyPage(ctx context.Context, c *client.Client, user message.UserID, version []int64) (map[message.ID]mark, client.Tally, error) {
	all, first := make(map[message.ID]mark), client.Tally{}
	options := client.InboxOptions{Limit: 200, Archived: client.ArchivedToo, Peek: true}
	for begun := false; !begun || options.Before != ""; begun = true {
		page, err := c.Inbox(ctx, user, options)
		if err != nil {
			return nil, first, err
		}
		for i, least := range version {
			if page.Version[i] < least {
				return nil, first, errOldPage
			}
		}
		for _, m := range page.Messages {
			all[m.ID] = mark{m.Read, m.Archived}
		}
		if !begun {
			first = page.Tally
		}
		options.Before = page.Next
	}
	return all, first, nil
}

// fetch replaces what is held, if that is owed. After a few failures it leaves that to the next frame: perhaps there is another epoch.
func (f *follower) fetch(ctx context.Context) (err error) {
	const tries = 20
	for try := 0; f.shown().owed; try++ {
		all, _, err := everyPage(ctx, f.pages, f.user, f.shown().version)
		if err == nil {
			f.mu.Lock()
			f.held, f.owed = all, false
			f.forget()
			f.mu.Unlock()
			return nil
		}
		if try == tries || ctx.Err() != nil {
			return err
		}
		pause(ctx, 20*time.Millisecond)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// get asks for what has changed since the cursor. The caller closes the body. It returns an error that callers repeat.
func (f *follower) get(ctx context.Context, path string, query url.Values) (*http.Response, error) {
	cursor := f.shown().cursor
	if rand.IntN(100) >= f.looks {
		query.Set("peek", "true")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "", http.NoBody)
	if err != nil {
		return nil, err
	}
	if path == "events" && rand.IntN(2) == 0 {
		request.Header.Set("Last-Event-ID", cursor)
	} else if cursor != "" {
		query.Set("cursor", cursor)
	}
	if request.URL, err = url.Parse(f.site + "/v1/users/" + string(f.user) + "/inbox/" + path + "?" + query.Encode()); err != nil {
		return nil, err
	}
	answer, err := f.http.Do(request)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch status := answer.StatusCode; {
	case status == http.StatusOK && cursor != "":
		f.resumes++
	case status != http.StatusOK:
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		err = fmt.Errorf("%s: %s: %s", request.URL, answer.Status, text)
		if status != http.StatusServiceUnavailable && status != http.StatusTooManyRequests && f.wrong == nil {
			f.wrong = err
		}
	}
	return answer, err
}

// poll asks once for a frame.
func (f *follower) poll(ctx context.Context, wait time.Duration) error {
	answer, err := f.get(ctx, "changes", url.Values{"wait": {wait.String()}})
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err // the process was killed
	}
	var frame client.Frame
	if err := json.Unmarshal(text, &frame); err != nil {
		return f.damaged(text, err)
	}
	f.take(frame)
	return f.fetch(ctx)
}

// damaged notes a frame that cannot be read, or is not that of its id.
func (f *follower) damaged(data []byte, err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wrong == nil {
		f.wrong = fmt.Errorf("%v in %s", err, data) //nolint:errorlint // there may be none
	}
	return f.wrong
}

// listen follows the stream until it ends, or for a time after it was opened.
func (f *follower) listen(ctx context.Context, most time.Duration) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	answer, err := f.get(ctx, "events", url.Values{})
	if err != nil {
		return err
	}
	defer time.AfterFunc(most, leave).Stop()
	defer func() { _ = answer.Body.Close() }()
	return f.parse(answer.Body, func() error { return f.fetch(ctx) })
}

// parse reads events, and calls taken after each frame.
func (f *follower) parse(body io.Reader, taken func() error) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 16<<20)
	var name, id, data string
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "event":
			name = value
		case "id":
			id = value
		case "data":
			data += value
		case "retry":
			milliseconds, err := strconv.Atoi(value)
			if err != nil {
				return err
			}
			f.mu.Lock()
			f.retry = time.Duration(milliseconds) * time.Millisecond
			f.mu.Unlock()
		case "": // the end of an event
			if name == "frame" {
				var frame client.Frame
				if err := json.Unmarshal([]byte(data), &frame); err != nil || frame.Cursor != id {
					return f.damaged([]byte(data), err)
				}
				f.take(frame)
				if err := taken(); err != nil {
					return err
				}
			}
			name, id, data = "", "", ""
		}
	}
	return lines.Err()
}

// note keeps an error for the case that the client does not come to what the pages have. Usually its next request goes on where it was.
func (f *follower) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trouble = err
}

// stay follows the stream, and comes back when the server has ended it.
func (f *follower) stay(ctx context.Context) {
	for ctx.Err() == nil {
		f.note(f.listen(ctx, time.Hour))
		pause(ctx, 50*time.Millisecond)
	}
}

// wander comes back and leaves at random, sometimes with what it knew long ago, until it is to be calm: then it asks again and again.
func (f *follower) wander(ctx context.Context, calm func() bool) {
	var old []view
	for ctx.Err() == nil {
		if calm() {
			f.note(f.poll(ctx, time.Second/2))
			pause(ctx, 20*time.Millisecond)
			continue
		}
		if rand.IntN(10) == 0 {
			old = append(old, f.shown())
		}
		if len(old) > 0 && rand.IntN(15) == 0 {
			f.mu.Lock()
			f.view = old[rand.IntN(len(old))].clone()
			f.mu.Unlock()
		}
		some, cancel := ctx, func() {}
		if rand.IntN(4) == 0 { // perhaps before there is an answer
			some, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(400))*time.Millisecond)
		}
		if rand.IntN(3) == 0 {
			f.note(f.poll(some, time.Duration(rand.IntN(300))*time.Millisecond))
		} else {
			f.note(f.listen(some, time.Duration(rand.IntN(400))*time.Millisecond))
		}
		cancel()
		pause(ctx, time.Duration(rand.IntN(200))*time.Millisecond)
	}
}
