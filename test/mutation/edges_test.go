package mutation_test

const (
	following = "./internal/following"
	blockGo   = "internal/following/block.go"
	scanGo    = "internal/fanout/scan.go"
)

// followingOthers are the shortcuts of edges between users.
func followingOthers() []mutation {
	return []mutation{
		{
			name: "a follow that only writes the edge", trap: "the message passed between the beginning of the span and its becoming visible: nobody delivers it",
			edits: []edit{{"internal/following/following.go", "}).run(ctx, edges)", "}).run(ctx, edges[:0])"}},
			pkg:   "./internal/following", run: "^TestFollow",
		},
		{
			name: "joining at a range that was read before", trap: "whoever followed in between misses the message",
			edits: []edit{
				{scanGo, `import (
	"context"
`, `import (
	"context"
	"fmt"
	"sync"
`},
				{scanGo, "func (b *batch) followers(", `var remembered sync.Map

func (b *batch) followers(`},
				{scanGo, "			edges, err = b.stores.Edges.Followers(ctx, source, b.partition, after, limit)\n", `			key := fmt.Sprintf("%p %s %d %s %d", b.deliverer, source, b.partition, after, limit)
			if known, ok := remembered.Load(key); ok {
				edges = known.([]follow.Edge)
			} else {
				edges, err = b.stores.Edges.Followers(ctx, source, b.partition, after, limit)
				remembered.Store(key, edges)
			}
`},
			},
			pkg: fanout, run: "^TestScanJoinsAtARangeReadAfterwards$",
		},
		{
			name: "catching up without the clause", trap: "what was sent while the subscription was under way is lost",
			edits: []edit{{"internal/following/catchup.go", "!follow.For(m.Message, e.Follower, e):", "e.Followee.IsTopic() || !follow.For(m.Message, e.Follower, e):"}},
			pkg:   "./internal/following", run: "^TestSubscribingCatchesUp$",
		},
		{
			name: "an ended edge makes room although a message was sent", trap: "a later rebuild of the inbox does not find the message",
			edits: []edit{{"internal/following/max.go", "len(spans) == len(e.Spans)", "len(spans) <= len(e.Spans)"}},
			pkg:   following, run: "^TestEndedEdgesMakeRoom$",
		},
		{
			name: "the edges end, then the block is written", trap: "a follow in between finds no block, and its edge stays",
			edits: []edit{
				{blockGo, "	block, now := []follow.Pair{pair.Block()}, s.opts.Now()\n", "	block, now := []follow.Pair{pair.Block()}, s.opts.Now()\n	if err := s.end(ctx, []follow.Pair{pair, pair.Reverse()}); err != nil {\n		return err\n	}\n"},
				{blockGo, "	return s.end(ctx, []follow.Pair{pair, pair.Reverse()})\n", "	return nil\n"},
			},
			pkg: "./internal/following", run: "^TestBlockWhileFollowing$",
		},
		{
			name: "a follow looks for a block only before its span", trap: "a block that comes in between has ended the edges already",
			edits: []edit{{blockGo, "		err = s.forbid(ctx, allowed, forbidden)\n", ""}},
			pkg:   "./internal/following", run: "^TestBlockWhileFollowing$",
		},
		{
			name: "a follow looks for a block only after its span", trap: "a user who is blocked has a span for a moment, as often as they like",
			edits: []edit{{blockGo, "	if err := s.forbid(ctx, pairs, forbidden); err != nil {", "	if err := error(nil); err != nil {"}},
			pkg:   "./internal/following", run: "^TestBlockWhileFollowing$",
		},
		{
			name: "an edge goes that has changed", trap: "who follows again gets nothing",
			edits: []edit{{"internal/pebblestore/edgeremoval.go", "		if !there.Equal(e) {", "		if !there.Equal(e) && false {"}},
			pkg:   "./internal/pebblestore", run: "^TestConformance$/^log$/^Edges$/^Remove$",
		},
	}
}
