package main

import "time"

// draft is a message that is to be published.
type draft struct {
	From     string   `json:"from"`
	To       []string `json:"to,omitempty"`
	Audience string   `json:"audience,omitempty"`
	Body     string   `json:"body"`
}

// toFollowers is the audience of a message to those who follow its author.
const toFollowers = "followers"

// pair is a follower and whom they follow.
type pair struct {
	Follower string `json:"follower"`
	Followee string `json:"followee"`
}

// step is a line of the file that is published: a message, or who begins to follow whom, or who no longer does.
type step struct {
	draft
	change
}

// change is a change of edges. Those of one line are made together.
type change struct {
	Follow   []pair `json:"follow,omitempty"`
	Unfollow []pair `json:"unfollow,omitempty"`
}

func (c change) empty() bool { return len(c.Follow)+len(c.Unfollow) == 0 }

// done is what the log tells of every line that was carried out.
type done struct {
	Line int `json:"line"`
	// Tries counts the requests that it took.
	Tries int `json:"tries"`
	// Asked is when the first of them was sent, Answered when the last was answered: what the line says became true
	// between the two.
	Asked    time.Time `json:"asked"`
	Answered time.Time `json:"answered"`
}

// accepted is a line of the log: a message that the server has answered with 202.
type accepted struct {
	done
	ID string `json:"id"`
	draft
}

// changed is a line of the log: edges as they have been changed.
type changed struct {
	done
	change
}
