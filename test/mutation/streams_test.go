package mutation_test

const (
	frameGo = "internal/inbox/frame.go"
	frames  = "^TestFrame"
)

// streaming are the shortcuts in what a stream sends.
func streaming() []mutation {
	in := func(name, trap, before, after string) mutation {
		return mutation{name: name, trap: trap, edits: []edit{{frameGo, before, after}}, pkg: inbox, run: frames}
	}
	return []mutation{
		in("a read mark that changes no state", "messages that are read stay unread in open clients",
			"moved, dropped := to.Marked != from.Marked,", "moved, dropped := to.Marked+1 < from.Marked-1 && false,"),
		in("a deletion that no frame names", "a deleted message stays in open clients",
			"if to.Deleted != from.Deleted {", "if to.Deleted > from.Deleted+1<<60 {"),
		in("more deletions than a frame names", "an old message that was deleted stays in open clients",
			"all, f.Older = all[:frameGone], true", "all = all[:frameGone]"),
		in("flags below the newest buckets", "a client that holds many messages shows old states",
			"f.Older = f.Older || b.Sequence < low && changed(b)", "f.Older = f.Older || b.Sequence < low && changed(b) && false"),
		in("a bucket that has lost its last flag", "archived and back: it stays archived in open clients",
			"all := moved || dropped ", "all := moved || dropped && false "),
		in("another epoch", "after a crash, a client misses what came into slots that it knew",
			"case from.Epoch != to.Epoch:", "case from.Epoch == to.Epoch+1:"),
		in("a gap that was made", "a client misses what the gap holds", "case from.Gaps != to.Gaps:", "case from.Gaps == to.Gaps+1<<60:"),
		in("a cursor beyond its messages", "what did not fit into a frame never comes", "return at, nil\n", "return to, nil\n"),
		{
			name: "what has expired is not in the cursor", trap: "a client that polls shows what has expired",
			edits: []edit{{"internal/inbox/tag.go", "Rest: hash(state.Purged, ", "Rest: hash("}}, pkg: inbox, run: frames,
		},
		{
			name: "deletions of removed buckets are forgotten", trap: "as many later deletions are not told to open clients",
			edits: []edit{{"internal/pebblestore/deletions.go", "if d.Ever = gone.tombstones; ", "if d.Ever = gone.tombstones * 0; "}},
			pkg:   "./internal/pebblestore", run: "^TestConformance$/^log$/^Inbox$/^Empty$",
		},
	}
}
