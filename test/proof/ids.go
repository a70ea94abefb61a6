package main

import (
	"fmt"
	"math/bits"
	"strings"
)

// ids is a set of message ids.
type ids uint8

func (s ids) has(id int8) bool { return s&(1<<id) != 0 }
func (s ids) least() int8      { return int8(bits.TrailingZeros8(uint8(s))) }
func (s ids) most() int8       { return int8(bits.Len8(uint8(s))) - 1 }
func (s ids) len() int8        { return int8(bits.OnesCount8(uint8(s))) }

// upTo returns all ids from 0 to the given one.
func upTo(id int8) ids { return 2<<id - 1 }

// oldest returns the n least.
func (s ids) oldest(n int8) ids {
	for s.len() > n {
		s &^= 1 << s.most()
	}
	return s
}

func (s ids) String() string {
	var b strings.Builder
	for id := range int8(8) {
		if s.has(id) {
			fmt.Fprint(&b, id)
		}
	}
	return b.String()
}
