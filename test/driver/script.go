package main

import "time"

// draft is a message to publish.
type draft struct {
	From     string   `json:"from"`
	To       []string `json:"to,omitempty"`
	Audience string   `json:"audience,omitempty"`
	Body     string   `json:"body"`
}

// toFollowers is the audience of a message to the author's followers.
const toFollowers = "followers"

// pair is an edge: a follower and a followee.
type pair struct {
	Follower string `json:"follower"`
	Followee string `json:"followee"`
}

// step is a line of the published file: a message, or a change of edges.
type step struct {
	draft
	change
}

// change is a change of edges. The follows of one line take effect together.
type change struct {
	Follow   []pair `json:"follow,omitempty"`
	Unfollow []pair `json:"unfollow,omitempty"`
}

// kinds counts the kinds of changes in the line.
func (c change) kinds() int { return min(len(c.Follow), 1) + min(len(c.Unfollow), 1) }

// done is the part of a line of the log that messages and changes share.
type done struct {
	Line int `json:"line"`
	// Tries counts the tries until the answer.
	Tries int `json:"tries"`
	// Asked is the time of the first try, Answered the time of the last answer. The line took effect between the two.
	Asked    time.Time `json:"asked"`
	Answered time.Time `json:"answered"`
}

// accepted is a line of the log: a message that the server answered with 202.
type accepted struct {
	done
	ID string `json:"id"`
	draft
}

// changed is a line of the log: an executed change of edges.
type changed struct {
	done
	change
}
