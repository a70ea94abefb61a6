package main

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

const (
	// roots is the number of topics that have no topic above them, and below how many topics each of them has.
	roots, below = 20, 50
	// subscriptions is how many topics each user is subscribed to. One in toRoot is a root.
	subscriptions, toRoot = 20, 10
	// firstPage and limit are how many of the missed messages a user sees first, and how many are appended to the inbox.
	firstPage, limit = 50, 1000
)

// topic is the place of a topic in the order of paths: a root comes before the topics below it.
type topic uint64

func topicOf(root, n int) topic { return topic(root*(below+1) + n) }

func (t topic) root() topic { return t - t%(below+1) }

// posted is a message to a topic.
type posted struct {
	from user
	id   uint64
	to   topic
}

func (p posted) message() key { return key{hash(uint64(p.from)), p.id} }

// rows are the keys of a message in a collection that has a document for each of its topics and their ancestors.
func (p posted) rows() []key { return []key{{uint64(p.to), p.id}, {uint64(p.to.root()), p.id}} }

// forum is what authors publish to topics. Topics below roots have as many messages and subscribers as Zipf's law says.
type forum struct {
	*world
	random *rand.Rand
	famous []topic
	past   []posted // ascending by id
	now    []posted
}

func newForum(w *world) *forum {
	f := &forum{world: w, random: rand.New(rand.NewPCG(w.seed, 1))}
	for root := range roots {
		for n := range below {
			f.famous = append(f.famous, topicOf(root, n+1))
		}
	}
	f.random.Shuffle(len(f.famous), func(i, j int) { f.famous[i], f.famous[j] = f.famous[j], f.famous[i] })
	for author := range user(len(w.past)) {
		registered := min(1, float64(author)/float64(w.users))
		for range w.past[author] {
			f.past = append(f.past, posted{author, uint64(present * (registered + w.lived[author]*f.random.Float64())), f.draw()})
		}
		for range w.now[author] {
			f.now = append(f.now, posted{author, uint64(present * (1 + w.window*f.random.Float64())), f.draw()})
		}
	}
	slices.SortFunc(f.past, func(x, y posted) int { return cmp.Compare(x.id, y.id) })
	return f
}

// draw draws a topic by how many messages it has.
func (f *forum) draw() topic {
	return f.famous[int(math.Pow(float64(len(f.famous)), f.random.Float64()))-1]
}

// missed are what a user who returns has missed, the newest first and at most limit, and the topics by which it is found.
type missed struct {
	topics   map[topic]bool
	messages []posted
}

func (f *forum) returns() (all []missed) {
	for u := range f.users {
		if f.active[u] || f.random.IntN(returning) > 0 {
			continue
		}
		m := missed{topics: make(map[topic]bool)}
		for n := 0; len(m.topics) < subscriptions; n++ {
			t := f.draw()
			if n%toRoot == 0 {
				t = t.root()
			}
			m.topics[t] = true
		}
		left := uint64(present * (float64(u)/float64(f.users) + f.lived[u]))
		for i := len(f.past) - 1; i >= 0 && f.past[i].id > left && len(m.messages) < limit; i-- {
			if p := f.past[i]; m.topics[p.to] || m.topics[p.to.root()] {
				m.messages = append(m.messages, p)
			}
		}
		all = append(all, m)
	}
	return all
}

// asked counts the shards that a return asks for its newest messages.
type asked struct{ search, both float64 }

// ask returns the mean numbers of shards that returns ask for the n newest messages: if a document for each topic finds them, and then with the
// messages themselves.
func ask(returns []missed, n, shards int, rows, messages layout) (mean asked) {
	ofRow, ofMessage := rows.deal(shards), messages.deal(shards)
	for _, m := range returns {
		newest := m.messages[:min(n, len(m.messages))]
		from := uint64(0)
		if len(newest) > 0 {
			from = newest[len(newest)-1].id
		}
		found, read := make(map[int]bool), make(map[int]bool)
		for t := range m.topics {
			for r := rows.find(key{uint64(t), from}); r <= rows.find(key{uint64(t), present}); r++ {
				found[ofRow[r]], read[ofRow[r]] = true, true
			}
		}
		for _, p := range newest {
			read[ofMessage[messages.find(p.message())]] = true
		}
		mean.search += float64(len(found)) / float64(len(returns))
		mean.both += float64(len(read)) / float64(len(returns))
	}
	return mean
}

// topicTable returns a table in Markdown of how many shards returns ask for messages to topics, by two ways of finding them.
func topicTable(f *forum) string {
	var messages, rows []key
	for _, p := range f.past {
		messages, rows = append(messages, p.message()), append(rows, p.rows()...)
	}
	ofMessages, ofRows := cut(messages), cut(rows)
	returns := f.returns()
	cells := make(map[string][]string)
	add := func(cell, format string, value any) { cells[cell] = append(cells[cell], fmt.Sprintf(format, value)) }
	for _, shards := range clusters {
		add("all", "%d.0", shards)
		for name, n := range map[string]int{"page": firstPage, "limit": limit} {
			mean := ask(returns, n, shards, ofRows, ofMessages)
			add(name+" search", "%.1f", mean.search)
			add(name+" both", "%.1f", mean.both)
		}
		writes, of := make([]int, shards), make([]int, shards)
		forRows, forMessages := ofRows.deal(shards), ofMessages.deal(shards)
		for _, p := range f.now {
			of[forMessages[ofMessages.find(p.message())]]++
			for _, row := range p.rows() {
				writes[forRows[ofRows.find(row)]]++
			}
		}
		add("writes", "%s", unevenness(writes))
		add("messages", "%s", unevenness(of))
	}
	cell := func(name string) string { return strings.Join(cells[name], " ") }
	var b strings.Builder
	fmt.Fprintf(&b, "**messages to topics**: %d messages to %d topics, %d returns of users with %d subscriptions.\n\n", len(f.past), len(f.famous)+roots, len(returns), subscriptions)
	b.WriteString("| found by | shards for the first page | for the newest 1,000 | documents a message | writes |\n| --- | --- | --- | --- | --- |\n")
	fmt.Fprintf(&b, "| an array in the message, `{from: 1, _id: 1}` | %s | %s | 1 | %s |\n", cell("all"), cell("all"), cell("messages"))
	fmt.Fprintf(&b, "| a document for each topic, `{topic: 1, message: 1}` | %s | %s | 2 more | %s |\n", cell("page search"), cell("limit search"), cell("writes"))
	fmt.Fprintf(&b, "| the same, and then the messages | %s | %s | | |\n", cell("page both"), cell("limit both"))
	return b.String()
}
