package main

import (
	"fmt"
	"strings"
)

// author publishes all messages.
const author = "ann"

// chunk is the number of followers in one request of those that fill and read the stores.
const chunk = 1000

// post is a message, as the processes pass it to each other and as the job queues store it.
type post struct {
	ID     string `json:"id"`
	Number int    `json:"number"`
	From   string `json:"from"`
	Body   string `json:"body"`
}

// newPost returns message n, counted from 1. Its body has the given number of bytes, or more if the number n does not fit.
func newPost(n, bytes int) post {
	return post{ID: fmt.Sprintf("m%06d", n), Number: n, From: author, Body: bodyOf(n, bytes)}
}

func bodyOf(n, bytes int) string {
	start := fmt.Sprintf("message %d ", n)
	return start + strings.Repeat("x", max(0, bytes-len(start)))
}

// followersOf returns the names of the followers, in order.
func followersOf(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("follower%07d", i)
	}
	return names
}
