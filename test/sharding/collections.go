package main

import "math"

// document stands for a document by the fields that shard keys are made of. A collection has only some of them.
type document struct {
	// user is the author of a message, the owner of a bucket, the one who is followed, or the user of a record.
	user user
	// partition and other are those of a follower.
	partition uint64
	other     user
	// n is a message's id, or the sequence of a bucket.
	n uint64
	// end tells that this is no document, but where a range ends that is read, so that its shard is reached although there
	// may be nothing.
	end bool
}

// access is so many operations on a few documents.
type access struct {
	documents []document
	times     int
}

// candidate is a shard key that a collection has, or might have had.
type candidate struct {
	name string
	// named tells that the key has user ids in their own order, so that it matters what they look like.
	named bool
	// scatters tells that the reads do not say which part of the key they want: they go to all shards.
	scatters bool
	key      func(d document, id func(user) uint64) key
}

// collection is what a collection holds when it is laid out, and what happens to it then.
type collection struct {
	name string
	// read says what a read is.
	read       string
	documents  []document
	writes     []access
	reads      []access
	candidates []candidate
}

// collections returns the collections of a world, each with the key that it has first.
func (w *world) collections() []collection {
	return []collection{w.messages(), w.inbox(), w.followersOf(), w.following(), w.states(), w.fanouts()}
}

const (
	// bucket is the capacity of a bucket.
	bucket = 50
	// looks is how often an active user opens their inbox while it is counted.
	looks = 10
	// returning is one in how many dormant users comes back in that time.
	returning = 20
)

// present is the id of a message that is published when the documents are laid out.
const present = 1 << 40

// sent returns the ids of messages that an author publishes, before or while it is counted.
func (w *world) sent(n int, from, length float64) []uint64 {
	ids := make([]uint64, n)
	for i := range ids {
		ids[i] = uint64(present * (from + length*w.random.Float64()))
	}
	return ids
}

func (w *world) messages() collection {
	c := collection{
		name: "messages", read: "a user who was dormant asks for what those published whom they follow",
		candidates: []candidate{
			{name: "`{from: 1, _id: 1}`", named: true, key: func(d document, id func(user) uint64) key { return key{id(d.user), d.n} }},
			{name: "`{from: \"hashed\"}`", key: func(d document, _ func(user) uint64) key { return key{hash(uint64(d.user))} }},
			{name: "`{_id: \"hashed\"}`", scatters: true, key: func(d document, _ func(user) uint64) key { return key{hash(d.n)} }},
			{name: "`{_id: 1}`", key: func(d document, _ func(user) uint64) key { return key{d.n} }},
		},
	}
	byAuthor := make([][]uint64, len(w.past))
	for author := range user(len(w.past)) {
		registered := min(1, float64(author)/float64(w.users))
		byAuthor[author] = w.sent(w.past[author], registered, w.lived[author])
		for _, id := range byAuthor[author] {
			c.documents = append(c.documents, document{user: author, n: id})
		}
		for _, id := range w.sent(w.now[author], 1, w.window) {
			c.writes = append(c.writes, access{[]document{{user: author, n: id}}, 1})
		}
	}
	for u := range w.users {
		if w.active[u] || w.random.IntN(returning) > 0 {
			continue
		}
		left := uint64(present * (float64(u)/float64(w.users) + w.lived[u]))
		var missed []document
		for _, author := range w.follows[u] {
			missed = append(missed, document{user: author, n: present, end: true})
			for _, id := range byAuthor[author] {
				if id > left {
					missed = append(missed, document{user: author, n: id})
				}
			}
		}
		c.reads = append(c.reads, access{missed, 1})
	}
	return c
}

func (w *world) inbox() collection {
	c := collection{
		name: "inbox", read: "an active user looks at their newest page: the head and the bucket below it",
		candidates: []candidate{
			{name: "`{owner: 1, sequence: 1}`", named: true, key: func(d document, id func(user) uint64) key { return key{id(d.user), d.n} }},
			{name: "`{owner: \"hashed\"}`", key: func(d document, _ func(user) uint64) key { return key{hash(uint64(d.user))} }},
			{name: "`{_id: \"hashed\"}`, of owner and sequence", scatters: true, key: func(d document, _ func(user) uint64) key {
				return key{hash(uint64(d.user), d.n)}
			}},
		},
	}
	fresh := make([]int, len(w.active)) // what comes by edges that are opened meanwhile, on average half way
	for _, e := range w.opened {
		fresh[e.follower] += w.whole(float64(w.now[e.followee]) / 2)
	}
	for owner := range user(len(w.active)) {
		pushes := fresh[owner]
		for _, author := range w.follows[owner] {
			pushes += w.now[author]
		}
		buckets := uint64(math.Ceil(w.slots(owner) / bucket))
		for sequence := range buckets {
			c.documents = append(c.documents, document{user: owner, n: sequence})
		}
		if !w.active[owner] {
			continue
		}
		head := document{user: owner, n: max(buckets, 1) - 1}
		page := []document{head}
		if head.n > 0 {
			page = append(page, document{user: owner, n: head.n - 1})
		}
		c.writes = append(c.writes, access{[]document{head}, pushes})
		c.reads = append(c.reads, access{page, looks})
	}
	return c
}

// edges returns all edges that there are when the documents are laid out, and those that are opened then.
func (w *world) edges() (there []document, opened []access) {
	for followee, followers := range w.followers {
		for _, follower := range followers {
			there = append(there, w.edge(edge{follower, user(followee)}))
		}
	}
	for _, e := range w.opened {
		opened = append(opened, access{[]document{w.edge(e)}, 1})
	}
	return there, opened
}

func (w *world) edge(e edge) document {
	return document{user: e.followee, partition: hash(uint64(e.follower)) % w.partitions, other: e.follower}
}

// audiences returns the reads of fan-out: a small audience in one go, another by partitions, in batches.
func (w *world) audiences(of func(e edge) document) (reads []access) {
	for author, followers := range w.followers {
		if w.now[author] == 0 {
			continue
		}
		parts := make([][]document, w.partitions)
		for _, follower := range followers {
			e := edge{follower, user(author)}
			part := uint64(0)
			if len(followers) > w.express {
				part = w.edge(e).partition
			}
			parts[part] = append(parts[part], of(e))
		}
		for _, part := range parts {
			for first := 0; first < len(part); first += w.batch {
				reads = append(reads, access{part[first:min(len(part), first+w.batch)], w.now[author]})
			}
		}
	}
	return reads
}

func (w *world) followersOf() collection {
	c := collection{
		name: "followers", read: "fan-out asks for a batch of one partition of an audience",
		candidates: []candidate{
			{name: "`{followee: 1, partition: 1, follower: 1}`", named: true, key: func(d document, id func(user) uint64) key {
				return key{id(d.user), d.partition, id(d.other)}
			}},
			{name: "`{followee: 1}`", named: true, key: func(d document, id func(user) uint64) key { return key{id(d.user)} }},
			{name: "`{followee: \"hashed\"}`", key: func(d document, _ func(user) uint64) key { return key{hash(uint64(d.user))} }},
			{name: "`{_id: \"hashed\"}`, of both users", scatters: true, key: func(d document, _ func(user) uint64) key {
				return key{hash(uint64(d.user), uint64(d.other))}
			}},
		},
	}
	c.documents, c.writes = w.edges()
	c.reads = w.audiences(w.edge)
	return c
}

func (w *world) following() collection {
	c := collection{
		name: "following", read: "a user who was dormant asks whom they follow",
		candidates: []candidate{
			{name: "`{follower: 1, followee: 1}`", named: true, key: func(d document, id func(user) uint64) key {
				return key{id(d.other), id(d.user)}
			}},
			{name: "`{follower: \"hashed\"}`", key: func(d document, _ func(user) uint64) key { return key{hash(uint64(d.other))} }},
			{name: "`{followee: 1, follower: 1}`", named: true, scatters: true, key: func(d document, id func(user) uint64) key {
				return key{id(d.user), id(d.other)}
			}},
		},
	}
	c.documents, c.writes = w.edges()
	for u := range w.users {
		if w.active[u] || w.random.IntN(returning) > 0 {
			continue
		}
		var edges []document
		for _, followee := range w.follows[u] {
			edges = append(edges, w.edge(edge{u, followee}))
		}
		c.reads = append(c.reads, access{edges, 1})
	}
	return c
}

func (w *world) states() collection {
	c := collection{
		name: "users", read: "fan-out looks up the states of a batch of recipients",
		candidates: []candidate{
			{name: "`{_id: \"hashed\"}`", key: func(d document, _ func(user) uint64) key { return key{hash(uint64(d.user))} }},
			{name: "`{_id: 1}`", named: true, key: func(d document, id func(user) uint64) key { return key{id(d.user)} }},
		},
	}
	for u := range user(len(w.active)) {
		record := document{user: u}
		if u < w.users {
			c.documents = append(c.documents, record)
		}
		if w.active[u] {
			c.writes = append(c.writes, access{[]document{record}, looks})
		}
	}
	c.reads = w.audiences(func(e edge) document { return document{user: e.follower} })
	return c
}

func (w *world) fanouts() collection {
	c := collection{
		name: "fanouts", read: "fan-out asks how far a message is",
		candidates: []candidate{
			{name: "`{_id: \"hashed\"}`", key: func(d document, _ func(user) uint64) key { return key{hash(d.n)} }},
			{name: "`{_id: 1}`", key: func(d document, _ func(user) uint64) key { return key{d.n} }},
		},
	}
	for author := range user(len(w.past)) {
		for _, id := range w.sent(w.past[author], 0, 1) {
			c.documents = append(c.documents, document{n: id})
		}
		tasks := 1
		if len(w.followers[author]) > w.express {
			tasks = int(w.partitions)
		}
		for _, id := range w.sent(w.now[author], 1, w.window) {
			record := []document{{n: id}}
			c.writes = append(c.writes, access{record, 1 + tasks}) // the plan, and the end of each task
			c.reads = append(c.reads, access{record, 1 + tasks})
		}
	}
	return c
}
