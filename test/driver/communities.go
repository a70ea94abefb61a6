package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/graph/community"
	"gonum.org/v1/gonum/graph/simple"
)

func writeCommunities(_ context.Context, args []string, p program) error {
	flags := newFlags(p, "communities", "driver communities makes a tree of topics from the communities of a graph, and writes topics.ndjson and members.tsv\n"+
		"into a folder: each topic after the one above it, and each user with the lowest topic of their community.\n\n"+
		"Who follows whom counts in both directions. The communities are those of the Louvain method. The whole graph is split first, and then, again and\n"+
		"again, the largest community that has not been split, until there are so many topics. Of two of a size, the one with the first user comes first.\n"+
		"A community below --smallest is no topic: its users stay with the topic above. The same seed makes the same tree.")
	follows := flags.String("follows", "", "`file` with a follower, a tab, and a followee on each line (required)")
	dir := flags.String("dir", "", "`folder` to write to (required)")
	topics := flags.Int("topics", 500, "how many topics there are at most")
	depth := flags.Int("depth", 4, "how many segments a topic has at most")
	smallest := flags.Int("smallest", 3, "how many users a community has at least")
	seed := flags.Uint64("seed", 1, "decides between equal choices of the method")
	switch err := parse(flags, args); {
	case err != nil:
		return err
	case *follows == "" || *dir == "":
		return wrong(flags, "give --follows and --dir")
	case *topics < 1 || *depth < 1 || *smallest < 1:
		return wrong(flags, "--topics, --depth and --smallest must be 1 or more")
	}
	g, err := readUndirected(*follows)
	if err != nil {
		return err
	}
	c := &communities{undirected: g, depth: *depth, smallest: *smallest, seed: *seed}
	c.grow(*topics)
	say(p.stderr, "%d users, %d topics, of each depth %v\n", len(g.names), len(c.all)-1, c.depths())
	return c.write(*dir)
}

// undirected is a graph in which the follower and the followee of each edge are neighbours. Its nodes are the places of the names.
type undirected struct {
	names      []string // ascending
	neighbours []map[int64]bool
}

func readUndirected(follows string) (g undirected, err error) {
	var edges []pair
	places := make(map[string]int64)
	err = eachEdge(follows, func(follower, followee string) {
		edges = append(edges, pair{follower, followee})
		places[follower], places[followee] = 0, 0
	})
	g.names = slices.Sorted(maps.Keys(places))
	g.neighbours = make([]map[int64]bool, len(g.names))
	for i, name := range g.names {
		places[name], g.neighbours[i] = int64(i), make(map[int64]bool)
	}
	for _, e := range edges {
		if a, b := places[e.Follower], places[e.Followee]; a != b {
			g.neighbours[a][b], g.neighbours[b][a] = true, true
		}
	}
	return g, err
}

// among returns the part of the graph that has some nodes.
func (g undirected) among(nodes []int64) *simple.UndirectedGraph {
	part := simple.NewUndirectedGraph()
	for _, n := range nodes {
		part.AddNode(simple.Node(n))
	}
	for _, n := range nodes {
		for m := range g.neighbours[n] {
			if n < m && part.Node(m) != nil {
				part.SetEdge(simple.Edge{F: simple.Node(n), T: simple.Node(m)})
			}
		}
	}
	return part
}

// communities is a tree of communities.
type communities struct {
	undirected
	depth, smallest int
	seed            uint64

	all []*topical // the root, which is no topic, and then each after the one above it
}

// topical is a community that is a topic.
type topical struct {
	path    string
	depth   int
	members []int64 // ascending
	split   bool
}

// grow makes topics until there are as many, or nothing is left to split.
func (c *communities) grow(topics int) {
	root := &topical{members: make([]int64, len(c.names))}
	for i := range root.members {
		root.members[i] = int64(i)
	}
	c.all = []*topical{root}
	for next := root; next != nil; next = c.largest() {
		next.split = true
		parts := c.parts(next.members)
		if len(parts) == 1 {
			continue
		}
		for i, members := range parts {
			if len(c.all) > topics || len(members) < c.smallest {
				break
			}
			path := fmt.Sprintf("c%d", i)
			if next.path != "" {
				path = next.path + "/" + path
			}
			c.all = append(c.all, &topical{path: path, depth: next.depth + 1, members: members})
		}
		if len(c.all) > topics {
			return
		}
	}
}

// largest returns the community to split next, or nil.
func (c *communities) largest() (found *topical) {
	for _, t := range c.all {
		if !t.split && t.depth < c.depth && (found == nil || compareParts(t.members, found.members) < 0) {
			found = t
		}
	}
	return found
}

// parts returns the communities among some nodes, the largest first.
func (c *communities) parts(nodes []int64) (parts [][]int64) {
	const resolution = 1 // that of Newman's modularity
	for _, found := range community.Modularize(c.among(nodes), resolution, rand.NewPCG(c.seed, 0)).Communities() {
		members := make([]int64, len(found))
		for i, n := range found {
			members[i] = n.ID()
		}
		slices.Sort(members)
		parts = append(parts, members)
	}
	slices.SortFunc(parts, compareParts)
	return parts
}

// compareParts orders parts of a graph: the larger first, and then the one with the first node.
func compareParts(a, b []int64) int {
	return cmp.Or(cmp.Compare(len(b), len(a)), slices.Compare(a, b))
}

// depths returns how many topics there are of each depth, from 1 on.
func (c *communities) depths() []int {
	counts := make([]int, c.depth)
	for _, t := range c.all[1:] {
		counts[t.depth-1]++
	}
	return counts
}

// write writes the files. A user whose community became no topic at any depth has none, and is left out.
func (c *communities) write(dir string) error {
	lowest := make([]string, len(c.names))
	topics, err := os.Create(filepath.Join(dir, "topics.ndjson"))
	if err != nil {
		return err
	}
	out := json.NewEncoder(topics)
	for _, t := range c.all[1:] {
		err = errors.Join(err, out.Encode(map[string]string{"topic": t.path}))
		for _, n := range t.members { // those of lower topics come later
			lowest[n] = t.path
		}
	}
	if err := errors.Join(err, topics.Close()); err != nil {
		return err
	}
	members, err := os.Create(filepath.Join(dir, "members.tsv"))
	if err != nil {
		return err
	}
	lines := bufio.NewWriter(members)
	for i, topic := range lowest {
		if topic != "" {
			fmt.Fprintf(lines, "%s\t%s\n", c.names[i], topic) //nolint:errcheck // Flush returns the error
		}
	}
	return errors.Join(lines.Flush(), members.Close())
}
