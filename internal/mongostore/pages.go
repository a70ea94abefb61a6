package mongostore

import (
	"slices"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/fanmail/fanmail/pkg/message"
)

// audience is a partition of a user's followers.
type audience struct {
	followee  message.UserID
	partition int
}

const (
	// rememberedAudiences is of how many audiences it is remembered where pages ended. Only those of many pages are.
	rememberedAudiences = 10_000
	// rememberedPages is how many ends are remembered of each.
	rememberedPages = 4096
	// leastPage is how long a page has to be for its end to be remembered.
	leastPage = 1000
)

// pages remembers where the pages of large audiences ended when they were read, so that the next time a page is asked for as a
// range with two ends. A server that sorts what it has found, instead of reading it in the order of an index, would otherwise
// read all followers that are left for each page of them. What is remembered may be wrong by now: it only says how much is
// asked for at a time.
type pages struct {
	mu   sync.Mutex
	ends *lru.Cache[audience, []message.UserID] // ascending
}

func newPages() *pages {
	ends, err := lru.New[audience, []message.UserID](rememberedAudiences)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &pages{ends: ends}
}

// end returns where a range that begins above after should end for it to have a page, and false for nowhere. That is not the end of
// the next page but of the one after it: a page may begin in the middle of what was one.
func (p *pages) end(of audience, after message.UserID) (message.UserID, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ends, _ := p.ends.Get(of)
	if i := firstAbove(ends, after); i+1 < len(ends) {
		return ends[i+1], true
	}
	return "", false
}

// note remembers that a page began above after and ended with last, unless an end within it is known.
func (p *pages) note(of audience, after, last message.UserID, length int) {
	if length < leastPage {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ends, _ := p.ends.Get(of)
	i := firstAbove(ends, after)
	if len(ends) == rememberedPages || i < len(ends) && ends[i] <= last {
		return
	}
	p.ends.Add(of, slices.Insert(slices.Clone(ends), i, last))
}

// firstAbove returns the index of the first end above a user.
func firstAbove(ends []message.UserID, after message.UserID) int {
	i, found := slices.BinarySearch(ends, after)
	if found {
		i++
	}
	return i
}
