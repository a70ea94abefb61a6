package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// twin returns the name of a user's twin. A twin follows the same authors and receives the same messages.
func twin(user string) string { return user + "-twin" }

const (
	// mailsPerPost is the number of mails for each message of a followed author to the followers.
	mailsPerPost = 6
	// mailsPerChange is the number of mails for each time that a user follows or unfollows an author.
	mailsPerChange = 12
)

func writeTwins(_ context.Context, args []string, p program) error {
	flags := newFlags(p, "twins", "driver twins writes what is to happen to pairs of twins into a folder: pairs.tsv, follows.tsv with who follows whom at first,\n"+
		"and script.ndjson, as \"driver publish\" reads it. Half of the users are in the mail trace, the other half, as far as there\n"+
		"are so many, follow the most followed; at random, every user begins and ends to follow authors of both kinds.\n"+
		"Whatever names a user names their twin, and both begin and end on the same line.")
	mails := flags.String("mails", "", "`file` of messages with \"to\" (required)")
	follows := flags.String("follows", "", "`file` with a follower, a tab, and a followee on each line (required)")
	dir := flags.String("dir", "", "`folder` to write to (required)")
	pairs := flags.Int("pairs", 100, "how many users have a twin")
	first := flags.Int("first", 0, "take only so many mails, the first of the file; 0 means all")
	authors := flags.Int("authors", 20, "how many of the most followed, and how many of those who write most mails, publish to followers")
	seed := flags.Uint64("seed", 1, "decides what happens")
	switch err := parse(flags, args); {
	case err != nil:
		return err
	case *mails == "" || *follows == "" || *dir == "":
		return wrong(flags, "give --mails, --follows and --dir")
	case *pairs < 2 || *authors < 1:
		return wrong(flags, "--pairs must be 2 or more, --authors 1 or more")
	}
	t := &twins{random: rand.New(rand.NewPCG(*seed, 0)), following: make(map[pair]bool)}
	if err := t.read(*mails, *first); err != nil {
		return err
	}
	if err := t.choose(*follows, *pairs, *authors); err != nil {
		return err
	}
	if err := t.write(*dir); err != nil {
		return err
	}
	say(p.stderr, "%d pairs, %d authors, %d edges at first, %d messages, %d changes of edges\n",
		len(t.users), len(t.authors), t.edges, t.messages, t.changes)
	return nil
}

// twins generates the script.
type twins struct {
	random *rand.Rand
	mails  []draft

	users     []string // the users who have a twin
	paired    map[string]bool
	authors   []string // the followed authors
	following map[pair]bool

	edges, messages, changes int
}

func (t *twins) read(path string, first int) error {
	err := eachLine(path, func(_ int, line []byte) error {
		var d draft
		if err := json.Unmarshal(line, &d); err != nil {
			return err
		}
		if t.mails = append(t.mails, d); len(t.mails) == first {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// choose chooses the users with twins, the followed authors, and their first followers.
func (t *twins) choose(follows string, pairs, authors int) error {
	received, sent, followers := make(map[string]int), make(map[string]int), make(map[string]int)
	for _, d := range t.mails {
		sent[d.From]++
		for _, user := range d.To {
			received[user]++
		}
	}
	var edges []pair
	if err := eachEdge(follows, func(follower, followee string) {
		followers[followee]++
		edges = append(edges, pair{follower, followee})
	}); err != nil {
		return err
	}
	celebrities, writers := mostFirst(followers), mostFirst(sent)
	t.authors = slices.Concat(celebrities[:min(authors, len(celebrities))], writers[:min(authors, len(writers))])

	fans := make(map[string]bool)
	for _, e := range edges {
		if slices.Contains(t.authors, e.Followee) {
			fans[e.Follower] = true
		}
	}
	readers, fansInOrder := mostFirst(received), slices.Sorted(maps.Keys(fans))
	t.random.Shuffle(len(fansInOrder), func(i, j int) { fansInOrder[i], fansInOrder[j] = fansInOrder[j], fansInOrder[i] })
	readers = readers[:min(pairs/2, len(readers))]
	t.users = slices.Concat(readers, fansInOrder[:min(pairs-len(readers), len(fansInOrder))])

	t.paired = make(map[string]bool, len(t.users))
	for _, user := range t.users {
		t.paired[user] = true
	}
	for _, e := range edges {
		if t.paired[e.Follower] && slices.Contains(t.authors, e.Followee) {
			t.following[e] = true
		}
	}
	return nil
}

// write writes the files.
func (t *twins) write(dir string) error {
	var pairs, follows strings.Builder
	for _, user := range t.users {
		fmt.Fprintf(&pairs, "%s\t%s\n", user, twin(user))
		for _, author := range t.authors {
			if t.following[pair{user, author}] {
				fmt.Fprintf(&follows, "%s\t%s\n%s\t%s\n", user, author, twin(user), author)
				t.edges += 2
			}
		}
	}
	err := errors.Join(
		os.WriteFile(filepath.Join(dir, "pairs.tsv"), []byte(pairs.String()), 0o600),
		os.WriteFile(filepath.Join(dir, "follows.tsv"), []byte(follows.String()), 0o600),
	)
	if err != nil {
		return err
	}
	script, err := os.Create(filepath.Join(dir, "script.ndjson"))
	if err != nil {
		return err
	}
	out := bufio.NewWriter(script)
	err = t.play(json.NewEncoder(out))
	return errors.Join(err, out.Flush(), script.Close())
}

// play writes the script.
func (t *twins) play(script *json.Encoder) error {
	for _, mail := range t.mails {
		if err := t.mail(script, mail); err != nil {
			return err
		}
		if t.random.IntN(mailsPerPost) == 0 {
			author := t.authors[t.random.IntN(len(t.authors))]
			t.messages++
			post := draft{From: author, Audience: toFollowers, Body: fmt.Sprintf("post %d by %s", t.messages, author)}
			if err := script.Encode(post); err != nil {
				return err
			}
		}
		if t.random.IntN(mailsPerChange) == 0 {
			if err := t.change(script); err != nil {
				return err
			}
		}
	}
	return nil
}

// mail writes a mail. It adds the twins of recipients, and removes recipients without a twin.
func (t *twins) mail(script *json.Encoder, mail draft) error {
	var to []string
	for _, user := range mail.To {
		if t.paired[user] {
			to = append(to, user, twin(user))
		}
	}
	if len(to) == 0 {
		return nil
	}
	mail.To = to
	if t.random.IntN(mailsPerPost) == 0 && slices.Contains(t.authors, mail.From) {
		mail.Audience = toFollowers // in addition to the named recipients
	}
	t.messages++
	return script.Encode(mail)
}

// change makes a user and their twin follow or unfollow an author.
func (t *twins) change(script *json.Encoder) error {
	p := pair{t.users[t.random.IntN(len(t.users))], t.authors[t.random.IntN(len(t.authors))]}
	if p.Follower == p.Followee {
		return nil
	}
	both := []pair{p, {twin(p.Follower), p.Followee}}
	t.changes++
	t.following[p] = !t.following[p]
	if t.following[p] {
		return script.Encode(change{Follow: both})
	}
	return script.Encode(change{Unfollow: both})
}
