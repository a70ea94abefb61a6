package main

import (
	"fmt"
	"hash/maphash"
	"strings"
)

// model is a protocol on a small instance: the states that it can be in, of type S, and how it goes from one to another.
// S holds everything that the future depends on, and nothing else, so that equal states have equal futures.
type model[S comparable] interface {
	// initial returns the states in which the protocol can begin.
	initial() []S
	// next yields every state that the protocol can be in after one atomic step from s, with what happened. The
	// order is the same each time.
	next(s S, yield func(event, S))
	// wrong describes the error in s, or returns "". The search calls it for every reachable state.
	wrong(s S) string
	// stuck describes the unfinished work in s, or returns "". The search calls it for states without a next step.
	stuck(s S) string
	// show describes s in a line, for people.
	show(s S) string
}

// event is what happened in a step. It is not text, for nearly all of them are never shown.
type event struct {
	format string
	args   [4]int8
}

// happened returns an event, described by a format with a %d for each of the arguments.
func happened(format string, args ...int8) event {
	e := event{format: format}
	copy(e.args[:], args)
	return e
}

func (e event) String() string {
	args := make([]any, strings.Count(e.format, "%"))
	for i := range args {
		args[i] = e.args[i]
	}
	return fmt.Sprintf(e.format, args...)
}

// outcome is what a search found.
type outcome struct {
	states      int
	transitions int
	// depth is how many steps the longest of the shortest ways to a state has.
	depth int
	// violation is what is wrong, or "", and trace a shortest way there.
	violation string
	trace     []line
}

// line is a step of a trace, and the state after it.
type line struct{ event, state string }

// explore visits every state of m, breadth first, until something is wrong with one.
//
// It remembers a fingerprint of 64 bits for each state instead of the state. Two states with the same fingerprint would be
// taken for one, and what only the second leads to would not be searched. With n states the odds of that are n²/2⁶⁵: one
// in 370,000 for ten million. Each search has a seed of its own, so what one overlooks in this way another finds.
func explore[S comparable](m model[S]) outcome {
	seed := maphash.MakeSeed()
	fingerprint := func(s S) uint64 { return max(maphash.Comparable(seed, s), 1) }
	known := newParents()
	var found outcome
	var layer, following []S
	visit := func(s S, parent uint64) bool {
		of := fingerprint(s)
		if !known.add(of, parent) {
			return true
		}
		found.states++
		following = append(following, s)
		if found.violation = m.wrong(s); found.violation == "" {
			return true
		}
		found.trace = trace(m, fingerprint, known.path(of))
		return false
	}
	for _, s := range m.initial() {
		if !visit(s, 0) {
			return found
		}
	}
	for ; len(following) > 0; found.depth++ {
		layer, following = following, layer[:0]
		for _, s := range layer {
			parent, steps, sound := fingerprint(s), 0, true
			m.next(s, func(_ event, to S) {
				steps++
				sound = sound && visit(to, parent)
			})
			found.transitions += steps
			if steps == 0 {
				if found.violation = m.stuck(s); found.violation != "" {
					found.trace = trace(m, fingerprint, known.path(parent))
					return found
				}
			}
			if !sound {
				found.depth++
				return found
			}
		}
	}
	found.depth--
	return found
}

// exploreToTheEnd is explore, and then looks for a cycle. Without one every run ends, and explore has looked where.
func exploreToTheEnd[S comparable](m model[S]) outcome {
	found := explore(m)
	if found.violation == "" {
		if found.trace = cycle(m); found.trace != nil {
			found.violation, found.depth = "a run need not end", len(found.trace)-1
		}
	}
	return found
}

// cycle returns a way to a state that the way has passed before, or nil. It searches depth first, and remembers states as
// explore does.
func cycle[S comparable](m model[S]) []line {
	type step struct {
		by event
		to S
	}
	type visit struct {
		step
		of   uint64
		left []step
	}
	seed := maphash.MakeSeed()
	passed := make(map[uint64]bool) // the states that were visited, and whether the way passes them
	var way []visit
	enter := func(by step) (again bool) {
		of := maphash.Comparable(seed, by.to)
		if again, known := passed[of]; known {
			return again
		}
		passed[of] = true
		v := visit{step: by, of: of}
		m.next(by.to, func(e event, to S) { v.left = append(v.left, step{e, to}) })
		way = append(way, v)
		return false
	}
	for _, s := range m.initial() {
		enter(step{happened("at first"), s})
		for len(way) > 0 {
			top := &way[len(way)-1]
			if len(top.left) == 0 {
				passed[top.of] = false
				way = way[:len(way)-1]
				continue
			}
			last := top.left[len(top.left)-1]
			top.left = top.left[:len(top.left)-1]
			if !enter(last) {
				continue
			}
			var lines []line
			for _, v := range append(way, visit{step: last}) {
				lines = append(lines, line{v.by.String(), m.show(v.to)})
			}
			return lines
		}
	}
	return nil
}

// trace goes the way that the fingerprints of its states describe.
func trace[S comparable](m model[S], fingerprint func(S) uint64, path []uint64) []line {
	var at S
	for _, s := range m.initial() {
		if fingerprint(s) == path[0] {
			at = s
			break
		}
	}
	lines := []line{{"at first", m.show(at)}}
	for _, wanted := range path[1:] {
		gone := false
		m.next(at, func(e event, to S) {
			if !gone && fingerprint(to) == wanted {
				gone, at = true, to
				lines = append(lines, line{e.String(), m.show(to)})
			}
		})
	}
	return lines
}
