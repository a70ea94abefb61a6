//go:build long && mongodb

package faults_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// The numbers of users in every cast.
const (
	fans    = 20 // follow the star and are always active
	away    = 8  // were last seen long ago; each has a twin who is always active
	authors = 4  // are followed by the users of away and by their twins
)

// cast is the set of users of a test.
type cast struct {
	fans, away, authors []string
}

func newCast() cast {
	names := func(prefix string, n int) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprintf("%s-%03d", prefix, i))
		}
		return names
	}
	return cast{fans: names("fan", fans), away: names("away", away), authors: names("author", authors)}
}

// star is followed by all fans.
const star = "star"

// twin returns the name of a user's twin. A twin follows and receives the same as the user, but is never away.
func twin(user string) string { return user + "-twin" }

// users returns the input of "fanmail import users". Half of the users of away were never seen.
func (c cast) users() string {
	var out strings.Builder
	seen := func(user string, at time.Time) {
		fmt.Fprintf(&out, "{\"user\":%q,\"last_viewed\":%q}\n", user, at.UTC().Format(time.RFC3339))
	}
	now := time.Now()
	for _, user := range c.fans {
		seen(user, now)
	}
	for i, user := range c.away {
		seen(twin(user), now)
		if i%2 == 0 {
			seen(user, now.Add(-40*24*time.Hour))
		}
	}
	return out.String()
}

// follows returns the input of "fanmail import follows".
func (c cast) follows() string {
	var out strings.Builder
	follow := func(follower, followee string) { fmt.Fprintf(&out, "%s\t%s\n", follower, followee) }
	for _, user := range c.fans {
		follow(user, star)
	}
	for i, user := range c.away {
		for _, follower := range []string{user, twin(user)} {
			follow(follower, star)
			follow(follower, c.followed(i))
		}
	}
	return out.String()
}

// pairs returns the pairs of users and twins for the checker.
func (c cast) pairs() string {
	var out strings.Builder
	for _, user := range c.away {
		fmt.Fprintf(&out, "%s\t%s\n", user, twin(user))
	}
	return out.String()
}

// script returns the input of the driver: messages by authors and by the star to their followers, and to named users. With churn,
// in every tenth line a user and their twin follow or unfollow an author.
func (c cast) script(lines int, churn bool) string {
	type edge map[string]string
	type draft struct {
		From     string   `json:"from"`
		To       []string `json:"to,omitempty"`
		Audience string   `json:"audience,omitempty"`
		Body     string   `json:"body"`
	}
	const followers = "followers"
	var out strings.Builder
	write := func(line any) {
		if err := json.NewEncoder(&out).Encode(line); err != nil {
			panic(err) // strings can always be encoded
		}
	}
	following := make(map[[2]string]bool) // in addition to the first follows
	for i := range lines {
		user, author := c.away[i%len(c.away)], c.authors[i/3%len(c.authors)]
		body := fmt.Sprintf("line %d", i)
		switch other := c.authors[(i+1)%len(c.authors)]; {
		case churn && i%10 == 9 && other != c.followed(i%len(c.away)):
			pair := [2]string{user, other}
			kind := map[bool]string{false: "follow", true: "unfollow"}[following[pair]]
			following[pair] = !following[pair]
			write(map[string][]edge{kind: {{"follower": user, "followee": other}, {"follower": twin(user), "followee": other}}})
		case i%8 == 1:
			write(draft{From: star, Audience: followers, Body: body})
		case i%3 == 0:
			write(draft{From: author, To: []string{user, twin(user), c.fans[i%len(c.fans)]}, Body: body})
		default:
			write(draft{From: author, Audience: followers, Body: body})
		}
	}
	return out.String()
}

// followed returns the author whom the nth user of away follows at first.
func (c cast) followed(n int) string { return c.authors[n%len(c.authors)] }
