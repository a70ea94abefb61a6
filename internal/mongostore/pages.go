package mongostore

import (
	"slices"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/fanmail/fanmail/pkg/message"
)

// audience is a partition of a user's followers.
type audience struct {
	followee  message.Source
	partition int
}

const (
	// rememberedAudiences is for how many audiences pages remembers where pages ended. It remembers only audiences with many
	// pages.
	rememberedAudiences = 10_000
	// rememberedPages is how many page ends are remembered for each audience.
	rememberedPages = 4096
	// leastPage is the least length of a page whose end is remembered.
	leastPage = 1000
)

// pages remembers where the pages of large audiences ended. The next query for such a page is then a range with two ends. Some
// servers sort the results instead of reading an index in order. Without the second end they would read all remaining followers
// for each page. An outdated end only changes how many followers one query asks for.
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

// end returns the upper end of a range that begins above after and holds at least one page. It returns false if no such end is
// known. It returns the end of the page after the next one, because a page may begin in the middle of a remembered page.
func (p *pages) end(of audience, after message.UserID) (message.UserID, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ends, _ := p.ends.Get(of)
	if i := firstAbove(ends, after); i+1 < len(ends) {
		return ends[i+1], true
	}
	return "", false
}

// note remembers that a page began above after and ended with last, unless it already remembers an end within that page.
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
