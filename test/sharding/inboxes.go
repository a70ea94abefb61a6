package main

import (
	"fmt"
	"strings"
)

// inboxes is a layout of inboxes, as fanmail bench layouts compares them.
type inboxes struct {
	name, keys string
	// parts are its collections, except those of messages that are stored once.
	parts []part
	// once says that a message is stored once, by its author and id, and that a read does not say where.
	once bool
}

// part is a collection with documents of owners.
type part struct {
	// each is the number of messages in a document. With 0, an owner has one document.
	each uint64
	// page says that a read of a page reads it.
	page bool
	key  func(owner user, n uint64) key
}

// number returns the number of the document that has an owner's nth message.
func (p part) number(n uint64) uint64 {
	if p.each == 0 {
		return 0
	}
	return n / p.each
}

const (
	// ofDay is the number of messages in a day of the layout dated.
	ofDay = 48
	// sampled is how many messages apart those are that stand for all in the layout on-write.
	sampled = 10
)

// ownerFirst is a key that begins with the owner, as a name.
func ownerFirst(owner user, n uint64) key { return key{hash(uint64(owner)), n} }

// ownerOnly is a key of the hashed owner.
func ownerOnly(owner user, _ uint64) key { return key{hash(uint64(owner))} }

// layouts returns the layouts of inboxes. An upsert has to name the whole shard key, so open-bucket cannot have the time in it.
func layouts() []inboxes {
	return []inboxes{
		{name: "on-read", keys: "`{from: 1, _id: 1}`", once: true},
		{name: "on-write", keys: "`{recipient: 1, id: 1}`", parts: []part{{each: 1, page: true, key: ownerFirst}}},
		{name: "counter", keys: "`{owner: 1, sequence: 1}`, counters `{_id: \"hashed\"}`", parts: []part{
			{each: bucket, page: true, key: ownerFirst}, {key: ownerOnly},
		}},
		{name: "open-bucket", keys: "`{owner: \"hashed\"}`", parts: []part{{each: bucket, page: true, key: ownerOnly}}},
		{name: "newest-n", keys: "`{_id: \"hashed\"}`", parts: []part{{page: true, key: ownerOnly}}},
		{name: "dated", keys: "`{owner: 1, day: 1}`", parts: []part{{each: ofDay, page: true, key: ownerFirst}}},
		{name: "buckets", keys: "`{owner: 1, sequence: 1}`, users `{_id: \"hashed\"}`", parts: []part{
			{each: bucket, page: true, key: ownerFirst}, {page: true, key: ownerOnly},
		}},
	}
}

// slots returns how many messages an inbox has when the documents are laid out.
func (w *world) slots(owner user) (slots float64) {
	for _, author := range w.follows[owner] {
		slots += float64(w.past[author]) * w.lived[owner]
	}
	return slots
}

// documents returns the keys of all documents of a part.
func (w *world) documents(p part, slots []uint64) (keys []key) {
	step := max(p.each, 1)
	if p.each == 1 {
		step = sampled
	}
	for owner, n := range slots {
		if p.each == 0 {
			keys = append(keys, p.key(user(owner), 0))
			continue
		}
		for at := uint64(0); at < n; at += step {
			keys = append(keys, p.key(user(owner), p.number(at)))
		}
	}
	return keys
}

// sends returns the active followers to whom each message goes that is published while it is counted.
func (w *world) sends() (audiences [][]user) {
	for author, followers := range w.followers {
		var active []user
		for _, follower := range followers {
			if w.active[follower] {
				active = append(active, follower)
			}
		}
		for range w.now[author] {
			if len(active) > 0 {
				audiences = append(audiences, active)
			}
		}
	}
	return audiences
}

// inboxTable returns a table in Markdown of how many shards a send and a page ask, by layout.
func inboxTable(w *world, all []inboxes) string {
	slots := make([]uint64, len(w.active))
	readers, recipients := 0, 0
	for owner := range slots {
		slots[owner] = uint64(w.slots(user(owner)))
		if w.active[owner] {
			readers++
		}
	}
	sends := w.sends()
	for _, audience := range sends {
		recipients += len(audience)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "**layouts of inboxes**: %d messages to %.0f active followers each on average, and %d reads of the newest 50.\n\n",
		len(sends), float64(recipients)/float64(len(sends)), readers)
	b.WriteString("| layout | shard keys | shards a send | shards a read |\n| --- | --- | --- | --- |\n")
	for _, l := range all {
		sent, read := w.asks(l, slots, sends)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", l.name, l.keys, sent, read)
	}
	return b.String()
}

// asks returns the mean numbers of shards that a send and a page ask in each cluster.
func (w *world) asks(l inboxes, slots []uint64, sends [][]user) (sent, read string) {
	var cells [2][]string
	laid := make([]layout, len(l.parts))
	for i, p := range l.parts {
		laid[i] = cut(w.documents(p, slots))
	}
	for _, shards := range clusters {
		if l.once {
			cells[0], cells[1] = append(cells[0], "1.0"), append(cells[1], fmt.Sprintf("%d.0", shards))
			continue
		}
		dealt := make([][]int, len(l.parts))
		for i := range laid {
			dealt[i] = laid[i].deal(shards)
		}
		var asked [2]float64
		for _, audience := range sends {
			reached := make(map[int]bool)
			for i, p := range l.parts {
				for _, owner := range audience {
					reached[dealt[i][laid[i].find(p.key(owner, p.number(slots[owner])))]] = true
				}
			}
			asked[0] += float64(len(reached)) / float64(len(sends))
		}
		readers := 0
		for owner, n := range slots {
			if !w.active[owner] {
				continue
			}
			readers++
			reached := make(map[int]bool)
			for i, p := range l.parts {
				for at := n - min(n, firstPage); p.page && at <= n; at++ {
					reached[dealt[i][laid[i].find(p.key(user(owner), p.number(at)))]] = true
				}
			}
			asked[1] += float64(len(reached))
		}
		cells[0] = append(cells[0], fmt.Sprintf("%.1f", asked[0]))
		cells[1] = append(cells[1], fmt.Sprintf("%.1f", asked[1]/float64(readers)))
	}
	return strings.Join(cells[0], " "), strings.Join(cells[1], " ")
}
