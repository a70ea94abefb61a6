package main

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// published is a message as it was sent, with the id from the answer.
type published struct {
	ID       string   `json:"id"`
	From     string   `json:"from"`
	To       []string `json:"to"`
	Audience string   `json:"audience"`
	Body     string   `json:"body"`
	// Asked is the time of the first request, Answered the time at which the server accepted the message. Both are zero if they are not
	// recorded.
	Asked    time.Time `json:"asked"`
	Answered time.Time `json:"answered"`
}

// pair is an edge: a follower and a followee.
type pair struct {
	Follower string `json:"follower"`
	Followee string `json:"followee"`
}

// change is a change of edges.
type change struct {
	Follow   []pair    `json:"follow"`
	Unfollow []pair    `json:"unfollow"`
	Asked    time.Time `json:"asked"`
	Answered time.Time `json:"answered"`
}

// look is one visit of a user, with the pages that they saw.
type look struct {
	User      string    `json:"user"`
	By        string    `json:"by"`
	Was       string    `json:"was"`
	Recovered *int64    `json:"recovered"`
	Tries     int       `json:"tries"`
	Asked     time.Time `json:"asked"`
	Answered  time.Time `json:"answered"`
	Read      struct {
		// Asked is the time of the request for the first page, Answered the time of its answer.
		Asked    time.Time `json:"asked"`
		Answered time.Time `json:"answered"`
		IDs      []string  `json:"ids"`
		Complete bool      `json:"complete"`
		End      bool      `json:"end"`
		Pages    int       `json:"pages"`
	} `json:"read"`
}

// input is everything that determines the inboxes.
type input struct {
	messages  []published
	followers map[string]map[string]spans // of each author, by follower
	edges     int
	changes   []change
	seen      map[string]time.Time
	looks     map[string][]look // by user, ascending in time
	unlogged  map[string]bool   // users who may have looked before the log began
	pairs     [][2]string
	twins     map[string]bool
	clocks    []setClock
}

func read(opts options) (input, error) {
	in := input{
		followers: make(map[string]map[string]spans), seen: make(map[string]time.Time),
		looks: make(map[string][]look), twins: make(map[string]bool),
		unlogged: make(map[string]bool),
	}
	for _, file := range []struct {
		path string
		read func(line []byte) error
	}{
		{opts.clocks, in.readClock},
		{opts.follows, in.readEdge},
		{opts.published, in.readPublished},
		{opts.users, in.readUser},
		{opts.logins, in.readLook},
		{opts.unlogged, in.readUnlogged},
		{opts.pairs, in.readPair},
	} {
		if file.path == "" {
			continue
		}
		for path := range strings.SplitSeq(file.path, ",") {
			if err := eachLine(path, file.read); err != nil {
				return in, err
			}
		}
	}
	for user := range in.looks {
		slices.SortFunc(in.looks[user], func(a, b look) int { return a.Asked.Compare(b.Asked) })
	}
	return in, in.change()
}

func (in *input) readPublished(line []byte) error {
	var c change
	if err := json.Unmarshal(line, &c); err != nil {
		return err
	}
	if len(c.Follow)+len(c.Unfollow) > 0 {
		in.changes = append(in.changes, c)
		return nil
	}
	var m published
	if err := json.Unmarshal(line, &m); err != nil {
		return err
	}
	if m.ID == "" || m.From == "" {
		return errors.New("id or from is missing")
	}
	in.messages = append(in.messages, m)
	return nil
}

func (in *input) readEdge(line []byte) error {
	follower, followee, ok := strings.Cut(string(line), "\t")
	if !ok {
		return errors.New("there is no tab between a follower and a followee")
	}
	in.edges++
	return in.step(pair{follower, followee}, func(s spans) (spans, error) { return s.follow(moment{}), nil })
}

func (in *input) readUser(line []byte) error {
	var user struct {
		User       string    `json:"user"`
		LastViewed time.Time `json:"last_viewed"`
	}
	if err := json.Unmarshal(line, &user); err != nil {
		return err
	}
	if user.User == "" || user.LastViewed.IsZero() {
		return errors.New("user or last_viewed is missing")
	}
	in.seen[user.User] = user.LastViewed
	return nil
}

func (in *input) readLook(line []byte) error {
	var l look
	if err := json.Unmarshal(line, &l); err != nil {
		return err
	}
	if l.User == "" || l.Asked.IsZero() || l.Answered.IsZero() || l.Read.Asked.IsZero() {
		return errors.New("user, asked, answered or read is missing")
	}
	in.looks[l.User] = append(in.looks[l.User], l)
	return nil
}

func (in *input) readUnlogged(line []byte) error {
	in.unlogged[string(line)] = true
	return nil
}

func (in *input) readPair(line []byte) error {
	user, twin, ok := strings.Cut(string(line), "\t")
	if !ok {
		return errors.New("there is no tab between a user and their twin")
	}
	in.pairs = append(in.pairs, [2]string{user, twin})
	in.twins[twin] = true
	return nil
}

// change applies the changes in the order of time.
func (in *input) change() error {
	slices.SortStableFunc(in.changes, func(a, b change) int {
		return cmp.Or(a.Asked.Compare(b.Asked), a.Answered.Compare(b.Answered))
	})
	for _, c := range in.changes {
		at := in.moment(c.Asked, c.Answered)
		for _, e := range c.Follow {
			if err := in.step(e, func(s spans) (spans, error) { return s.follow(at), nil }); err != nil {
				return err
			}
		}
		for _, e := range c.Unfollow {
			if err := in.step(e, func(s spans) (spans, error) { return s.unfollow(at) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// step changes one pair.
func (in *input) step(e pair, change func(spans) (spans, error)) error {
	if in.followers[e.Followee] == nil {
		in.followers[e.Followee] = make(map[string]spans)
	}
	changed, err := change(in.followers[e.Followee][e.Follower])
	if err != nil {
		return fmt.Errorf("%s and %s: %w", e.Follower, e.Followee, err)
	}
	in.followers[e.Followee][e.Follower] = changed
	return nil
}

// eachLine calls do with every line of a file that is not blank. It decompresses the file if necessary.
func eachLine(path string, do func(line []byte) error) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	buffered := bufio.NewReader(file)
	var r io.Reader = buffered
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		if r, err = gzip.NewReader(buffered); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for number := 1; lines.Scan(); number++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if err := do(line); err != nil {
			return fmt.Errorf("%s:%d: %w", path, number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
