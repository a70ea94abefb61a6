package main

import (
	"cmp"
	"slices"
)

// key is the value of a shard key: its fields in order, as numbers. What is hashed is a hash already.
type key [3]uint64

func (k key) compare(other key) int {
	for i := range k {
		if c := cmp.Compare(k[i], other[i]); c != 0 {
			return c
		}
	}
	return 0
}

// rangesEach is how many ranges a collection is cut into: as many as 128 GiB of documents are, at MongoDB's default of
// 128 MiB a range.
const rangesEach = 1024

// layout is a collection cut into ranges of its shard key.
type layout struct {
	from []key // where each range begins; the first begins below everything
	size []int // how many documents there were in each when it was cut
}

// cut cuts documents into ranges of the same size, but never between two with the same value of the shard key: what has
// one value is a range of its own, however large.
func cut(documents []key) layout {
	documents = slices.Clone(documents)
	slices.SortFunc(documents, key.compare)
	full := max(1, (len(documents)+rangesEach-1)/rangesEach)
	var l layout
	for i, k := range documents {
		last := len(l.size) - 1
		if last < 0 || l.size[last] >= full && k != documents[i-1] {
			l.from, l.size = append(l.from, k), append(l.size, 0)
			last++
		}
		l.size[last]++
	}
	return l
}

// find returns the range that holds a key.
func (l layout) find(k key) int {
	i, found := slices.BinarySearchFunc(l.from, k, key.compare)
	if !found {
		i--
	}
	return max(0, i)
}

// deal gives each range to a shard: in their order, each to the one that holds the fewest documents by then. It returns
// the shards of the ranges.
func (l layout) deal(shards int) []int {
	held, dealt := make([]int, shards), make([]int, len(l.size))
	for i, size := range l.size {
		least := 0
		for s := range held {
			if held[s] < held[least] {
				least = s
			}
		}
		dealt[i] = least
		held[least] += size
	}
	return dealt
}

// hash is the finalizer of splitmix64, which stands for the hash of a hashed key.
func hash(fields ...uint64) uint64 {
	var h uint64
	for _, f := range fields {
		h += f + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}
