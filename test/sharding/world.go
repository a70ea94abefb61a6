package main

import (
	"math"
	"math/rand/v2"
	"slices"
)

// dimensions says how large a population is, and how it lives.
type dimensions struct {
	seed uint64
	// users are there when the documents are laid out; newcomers register while what follows is counted.
	users, newcomers user
	// followees is how many each user follows on average.
	followees float64
	// posts is how many messages the most followed of all has published before, if they were there from the beginning.
	posts float64
	// window is the time that is counted, stays is how long users stay on average, both as a share of the time before.
	window, stays float64
	// partitions is the number of partitions, express the greatest audience that is read in one go, and batch how many
	// followers are read together otherwise.
	partitions     uint64
	express, batch int
}

// standard is the population of README.md.
var standard = dimensions{
	seed: 1, users: 20_000, newcomers: 200, followees: 20, posts: 400, window: 0.05, stays: 0.3,
	partitions: 16, express: 1000, batch: 2000,
}

// user is a user of a world. Users have numbers in the order of their registration.
type user uint64

// world is who follows whom, who publishes how much, and who looks at their inbox.
type world struct {
	dimensions
	random *rand.Rand

	// everyone are the users there are when the documents are laid out.
	everyone []user
	// lived is for how much of the past a user was active. Those who left are dormant since.
	lived  []float64
	active []bool
	// follows are those whom each user follows, followers the reverse, both ascending, when the documents are laid out.
	follows, followers [][]user
	// opened are the edges that are added while it is counted.
	opened []edge
	// past and now are how many messages each user has published before, and publishes while it is counted.
	past, now []int
}

type edge struct{ follower, followee user }

// newWorld makes a population. Users register at an even pace, and each stays for a time that is distributed
// exponentially. The nth most followed has a share of the followers that goes down with n (Zipf's law), and publishes a share
// that goes down with its square root; who follows them is drawn evenly. Neither depends on when they registered.
func newWorld(d dimensions) *world {
	w := &world{dimensions: d, random: rand.New(rand.NewPCG(d.seed, 0))}
	everybody := d.users + d.newcomers
	for u := range d.users {
		w.everyone = append(w.everyone, u)
	}
	w.lived, w.active = make([]float64, everybody), make([]bool, everybody)
	w.follows, w.followers = make([][]user, everybody), make([][]user, everybody)
	w.past, w.now = make([]int, everybody), make([]int, everybody)
	for u := range everybody {
		since := max(0, 1-float64(u)/float64(d.users)) // how long ago they registered
		stay := w.random.ExpFloat64() * d.stays
		w.lived[u], w.active[u] = min(stay, since), stay > since
	}
	famous := w.shuffled() // the most followed first
	most := float64(d.users) * d.followees / math.Log(float64(d.users))
	for rank, author := range famous {
		n := min(len(famous)-1, w.whole(most/float64(rank+1)))
		for _, follower := range w.some(n, author) {
			w.follows[follower] = append(w.follows[follower], author)
			w.followers[author] = append(w.followers[author], follower)
		}
		rate := d.posts / math.Sqrt(float64(rank+1))
		w.past[author] = w.whole(rate * w.lived[author])
		if w.active[author] {
			w.now[author] = w.whole(rate * d.window)
		}
	}
	for u := range everybody {
		slices.Sort(w.follows[u])
		slices.Sort(w.followers[u])
	}
	w.open(famous)
	return w
}

// open opens edges: newcomers follow as many as others do, and the active follow one more for twenty that they follow, whom
// they choose by how many follow them already.
func (w *world) open(famous []user) {
	for u := range user(len(w.active)) {
		more := 0
		switch {
		case u >= w.users:
			more = w.whole(w.followees)
		case w.active[u]:
			more = w.whole(float64(len(w.follows[u])) * w.window)
		}
		for range more {
			rank := math.Pow(float64(w.users), w.random.Float64()) // 1 and above, by Zipf's law
			w.opened = append(w.opened, edge{u, famous[int(rank)-1]})
		}
	}
}

// shuffled returns the users there are when the documents are laid out, in any order.
func (w *world) shuffled() []user {
	all := slices.Clone(w.everyone)
	w.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// whole rounds up or down at random, so that the sum of many comes out right.
func (w *world) whole(x float64) int { return int(x + w.random.Float64()) }

// some draws n users, each once and none of them but, from those there are when the documents are laid out.
func (w *world) some(n int, but user) []user {
	all := len(w.everyone)
	if n > all/2 {
		shuffled := w.shuffled()
		return slices.DeleteFunc(shuffled, func(u user) bool { return u == but })[:n]
	}
	drawn := make(map[user]bool, n)
	list := make([]user, 0, n)
	for len(list) < n {
		if u := w.everyone[w.random.IntN(all)]; u != but && !drawn[u] {
			drawn[u] = true
			list = append(list, u)
		}
	}
	return list
}
