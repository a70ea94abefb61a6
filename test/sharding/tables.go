package main

import (
	"fmt"
	"strings"
)

// clusters are the numbers of shards that are looked at. The last is the one in which the shards of a read are counted.
var clusters = []int{4, 16, 64}

// tables returns a table in Markdown for each collection of a world.
func tables(w *world) string {
	var b strings.Builder
	for i, c := range w.collections() {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "**%s**: %d documents, %d writes, %d reads. A read: %s.\n\n", c.name, len(c.documents), total(c.writes), total(c.reads), c.read)
		b.WriteString("| shard key | user ids | documents | writes | reads | shards a read |\n")
		b.WriteString("| --- | --- | --- | --- | --- | --- |\n")
		for _, k := range c.candidates {
			for _, n := range namings(k) {
				fmt.Fprintf(&b, "| %s | %s | %s |\n", k.name, n.name, spread(c, k, n.id))
			}
		}
	}
	return b.String()
}

func total(accesses []access) (times int) {
	for _, a := range accesses {
		times += a.times
	}
	return times
}

// naming is what user ids look like to a key that keeps their order.
type naming struct {
	name string
	id   func(user) uint64
}

func namings(k candidate) []naming {
	inOrder := func(u user) uint64 { return uint64(u) }
	if !k.named {
		return []naming{{"any", inOrder}}
	}
	return []naming{
		{"random", func(u user) uint64 { return hash(inOrder(u)) }},
		{"as they register", inOrder},
	}
}

// spread returns the cells of a row: by how much the busiest shard is above the mean, and how many shards a read takes.
func spread(c collection, k candidate, id func(user) uint64) string {
	documents := make([]key, len(c.documents))
	for i, d := range c.documents {
		documents[i] = k.key(d, id)
	}
	l := cut(documents)
	place := func(accesses []access) [][]int {
		places := make([][]int, len(accesses)) // the ranges of the documents of each
		for i, a := range accesses {
			for _, d := range a.documents {
				if !d.end || !k.scatters {
					places[i] = append(places[i], l.find(k.key(d, id)))
				}
			}
		}
		return places
	}
	writes, reads := place(c.writes), place(c.reads)
	var held, written, read []string
	reached := 0.0
	for _, shards := range clusters {
		dealt := l.deal(shards)
		documents := make([]int, shards)
		for i, size := range l.size {
			documents[dealt[i]] += size
		}
		held = append(held, unevenness(documents))
		load, _ := touch(c.writes, writes, dealt, shards, false)
		written = append(written, unevenness(load))
		load, reached = touch(c.reads, reads, dealt, shards, k.scatters)
		read = append(read, unevenness(load))
	}
	return fmt.Sprintf("%s | %s | %s | %.1f", strings.Join(held, " "), strings.Join(written, " "), strings.Join(read, " "), reached)
}

// touch returns how much accesses have each shard do, and how many shards they reach on average. A shard has as much to do
// as it has documents of an access, and at least something if it is reached at all.
func touch(accesses []access, places [][]int, dealt []int, shards int, everywhere bool) (load []int, reached float64) {
	load = make([]int, shards)
	here := make([]int, shards)
	all := 0
	for i, a := range accesses {
		clear(here)
		for _, place := range places[i] {
			here[dealt[place]]++
		}
		for s := range here {
			if here[s] == 0 && everywhere {
				here[s] = 1
			}
			if here[s] > 0 {
				load[s] += here[s] * a.times
				reached += float64(a.times)
			}
		}
		all += a.times
	}
	return load, reached / float64(all)
}

// unevenness returns how many times the mean the greatest is.
func unevenness(load []int) string {
	greatest, sum := 0, 0
	for _, n := range load {
		greatest, sum = max(greatest, n), sum+n
	}
	return fmt.Sprintf("%.2f", float64(greatest*len(load))/float64(sum))
}
