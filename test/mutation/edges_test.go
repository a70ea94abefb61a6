package mutation_test

const (
	following = "./internal/following"
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
			name: "an edge goes that has changed", trap: "who follows again gets nothing",
			edits: []edit{{"internal/pebblestore/edgeremoval.go", "		if !there.Equal(e) {", "		if !there.Equal(e) && false {"}},
			pkg:   "./internal/pebblestore", run: "^TestConformance$/^Edges$/^Remove$",
		},
	}
}
