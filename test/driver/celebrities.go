package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

func printCelebrities(_ context.Context, args []string, p program) error {
	flags := newFlags(p, "celebrities", "driver celebrities prints messages by those who have the most followers, to their followers, as \"driver publish\" reads them.")
	follows := flags.String("follows", "", "`file` with a follower, a tab, and a followee on each line (required)")
	count := flags.Int("count", 20, "how many authors")
	each := flags.Int("each", 1, "how many messages by each")
	if err := parse(flags, args); err != nil {
		return err
	}
	if *follows == "" {
		return wrong(flags, "give --follows")
	}
	followers := make(map[string]int)
	if err := eachEdge(*follows, func(_, followee string) { followers[followee]++ }); err != nil {
		return err
	}
	authors := mostFirst(followers)
	out := bufio.NewWriter(p.stdout)
	encoder := json.NewEncoder(out)
	for n := range *each {
		for _, author := range authors[:min(*count, len(authors))] {
			m := draft{From: author, Audience: toFollowers, Body: fmt.Sprintf("message %d to %d followers", n+1, followers[author])}
			if err := encoder.Encode(m); err != nil {
				return err
			}
		}
	}
	return out.Flush()
}

// mostFirst returns the names by descending count.
func mostFirst(counts map[string]int) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
}
