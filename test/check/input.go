package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// published is a message as it was sent, with the id it was answered with.
type published struct {
	ID       string   `json:"id"`
	From     string   `json:"from"`
	To       []string `json:"to"`
	Audience string   `json:"audience"`
	Body     string   `json:"body"`
}

// input is what the inboxes follow from.
type input struct {
	messages  []published
	followers map[string][]string // of each followee
	edges     int
	seen      map[string]time.Time
}

func read(opts options) (input, error) {
	in := input{followers: make(map[string][]string), seen: make(map[string]time.Time)}
	err := eachLine(opts.published, func(line []byte) error {
		var m published
		if err := json.Unmarshal(line, &m); err != nil {
			return err
		}
		if m.ID == "" || m.From == "" {
			return errors.New("id or from is missing")
		}
		in.messages = append(in.messages, m)
		return nil
	})
	if err != nil {
		return in, err
	}
	if opts.follows != "" {
		err = eachLine(opts.follows, func(line []byte) error {
			follower, followee, ok := strings.Cut(string(line), "\t")
			if !ok {
				return errors.New("there is no tab between a follower and a followee")
			}
			in.followers[followee] = append(in.followers[followee], follower)
			in.edges++
			return nil
		})
		if err != nil {
			return in, err
		}
	}
	return in, eachLine(opts.users, func(line []byte) error {
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
	})
}

// eachLine calls do with every line of a file that is not blank, decompressed if need be.
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
