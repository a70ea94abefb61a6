package main

import (
	"bufio"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// seen is a line for "fanmail import users".
type seen struct {
	User       string `json:"user"`
	LastViewed string `json:"last_viewed"`
}

func printUsers(_ context.Context, args []string, p program) error {
	flags := newFlags(p, "users", "driver users prints users and when they were seen last, as \"fanmail import users\" reads them.\n\n"+
		"With --last-seen, each was seen so many days before --now as the file says. Those of whom it does not say it were\n"+
		"never seen: they are left out, which makes them dormant. With --follows, everybody in the file was seen at --now.")
	lastSeen := flags.String("last-seen", "", "`file` with a user, a tab, and days or nothing, on each line")
	follows := flags.String("follows", "", "`file` with a follower, a tab, and a followee on each line")
	nowText := flags.String("now", "", "a `time` as in RFC 3339 (default the present)")
	dormantAfter := flags.Duration("dormant-after", 30*24*time.Hour, "for counting who is dormant, on standard error")
	if err := parse(flags, args); err != nil {
		return err
	}
	now := p.now()
	if *nowText != "" {
		var err error
		if now, err = time.Parse(time.RFC3339, *nowText); err != nil {
			return wrong(flags, "--now: %v", err)
		}
	}
	if (*lastSeen == "") == (*follows == "") {
		return wrong(flags, "give either --last-seen or --follows")
	}
	views, never, err := readViews(*lastSeen, *follows, now)
	if err != nil {
		return err
	}
	dormant := never
	out := bufio.NewWriter(p.stdout)
	encoder := json.NewEncoder(out)
	for _, user := range slices.Sorted(maps.Keys(views)) {
		if now.After(views[user].Add(*dormantAfter)) {
			dormant++
		}
		at := views[user].UTC().Truncate(time.Millisecond)
		if err := encoder.Encode(seen{User: user, LastViewed: at.Format(time.RFC3339Nano)}); err != nil {
			return err
		}
	}
	say(p.stderr, "%d users, of whom %d are dormant; %d of these were never seen\n", len(views)+never, dormant, never)
	return out.Flush()
}

// readViews returns the time at which each user was last seen, and the number of users who were never seen.
func readViews(lastSeen, follows string, now time.Time) (views map[string]time.Time, never int, err error) {
	views = make(map[string]time.Time)
	if follows != "" {
		return views, 0, eachEdge(follows, func(follower, followee string) { views[follower], views[followee] = now, now })
	}
	err = eachLine(lastSeen, func(_ int, line []byte) error {
		user, text, _ := strings.Cut(string(line), "\t")
		if text == "" {
			never++
			return nil
		}
		days, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return err
		}
		views[user] = now.Add(-time.Duration(days * float64(24*time.Hour)))
		return nil
	})
	return views, never, err
}
