package main

import "fmt"

// unlinking models how an edge that has ended is removed, where it is two documents: followers, which decides, and following.
//
// A change is three writes: a compare-and-swap of followers, which makes it pending; following, unless that has a later revision; and
// followers again, which is not pending then. A host that finds followers pending carries out the second and the third. A collector removes
// an edge that has ended: first following, then followers, each only as it was read, and followers only if it is not pending.
//
// A server refuses the second write if it arrives long after the host has read the record, and a collector takes an edge only longer after it
// has ended. So when an edge is removed, a host may carry out its last change, and no earlier one. Then following may be left, and says that the
// edge has ended. The first revision of a new edge is above all of an edge that was removed, and replaces it.
type unlinking struct {
	mutation mutation

	changes int8
	crashes int8
}

// linked is a state of unlinking.
type linked struct {
	followers, following edgeDocument
	hosts                [2]linker
	collectors           [2]unlinker

	latest int8 // revision that an edge has had
	left   bool // a host may have written following again after a collector has removed it

	changes, crashes int8 // left
}

// edgeDocument is one of the documents of an edge. The zero document is not there.
type edgeDocument struct {
	revision int8
	open     bool
	pending  bool
}

func (d edgeDocument) there() bool { return d.revision > 0 }

func (d edgeDocument) same(o edgeDocument) bool { return d.revision == o.revision && d.open == o.open }

// linker is a host that changes the edge, or completes a change.
type linker struct {
	phase linkerPhase
	has   edgeDocument // followers as it was read, or as the change has made it
}

type linkerPhase uint8

const (
	linkerFree linkerPhase = iota
	linkerChanges
	linkerMirrors
	linkerSettles
)

// unlinker is a collector that has read an edge that has ended.
type unlinker struct {
	phase unlinkerPhase
	has   edgeDocument
}

type unlinkerPhase uint8

const (
	unlinkerFree unlinkerPhase = iota
	unlinkerFirst
	unlinkerSecond
)

func (m *unlinking) initial() []linked {
	return []linked{{changes: m.changes, crashes: m.crashes}}
}

func (m *unlinking) next(s linked, yield func(event, linked)) {
	for i := range s.hosts {
		m.link(s, int8(i), yield)
	}
	for i := range s.collectors {
		m.unlink(s, int8(i), yield)
	}
}

// link is a step of a host.
func (m *unlinking) link(s linked, n int8, yield func(event, linked)) {
	h := s.hosts[n]
	if s.crashes > 0 && h.phase != linkerFree {
		t := s
		t.crashes--
		t.hosts[n] = linker{}
		yield(happened("host %d crashes", n), t)
	}
	switch h.phase {
	case linkerFree:
		if s.changes > 0 {
			t := s
			t.changes--
			t.hosts[n] = linker{linkerChanges, s.followers}
			yield(happened("host %d reads followers, revision %d, for a change", n, s.followers.revision), t)
		}
		if s.followers.pending {
			s.hosts[n] = linker{linkerMirrors, s.followers}
			yield(happened("host %d finds revision %d pending", n, s.followers.revision), s)
		}
	case linkerChanges:
		if s.followers != h.has {
			s.hosts[n].has = s.followers
			yield(happened("host %d is refused, and reads followers again", n), s)
			return
		}
		revision := h.has.revision + 1
		if !h.has.there() && m.mutation != firstFromOne {
			revision = s.latest + 1
		}
		s.followers = edgeDocument{revision, !h.has.open, true}
		s.latest = max(s.latest, revision)
		s.hosts[n] = linker{linkerMirrors, s.followers}
		yield(happened("host %d makes revision %d", n, revision), s)
	case linkerMirrors:
		if s.following.revision < h.has.revision {
			s.left = s.left || !s.following.there() && !s.followers.pending
			s.following = edgeDocument{revision: h.has.revision, open: h.has.open}
		}
		s.hosts[n].phase = linkerSettles
		yield(happened("host %d has revision %d in following", n, s.following.revision), s)
	case linkerSettles:
		if s.followers.revision == h.has.revision {
			s.followers.pending = false
		}
		s.hosts[n] = linker{}
		yield(happened("host %d lets revision %d not be pending", n, h.has.revision), s)
	}
}

// unlink is a step of a collector.
func (m *unlinking) unlink(s linked, n int8, yield func(event, linked)) {
	c := s.collectors[n]
	if s.crashes > 0 && c.phase != unlinkerFree {
		t := s
		t.crashes--
		t.collectors[n] = unlinker{}
		yield(happened("collector %d crashes", n), t)
	}
	first, second := &s.following, &s.followers
	if m.mutation == followersFirst {
		first, second = second, first
	}
	remove := func(d *edgeDocument) bool {
		kept := d.there() && (d.revision != c.has.revision || d.pending && m.mutation != pendingUnlinked) && m.mutation != unlinkedAnyway
		if !kept {
			*d = edgeDocument{}
		}
		return !kept
	}
	switch c.phase {
	case unlinkerFree:
		ended := s.followers.there() && !s.followers.open && (!s.followers.pending || m.mutation == pendingUnlinked)
		if !ended || m.underWay(&s) || n > 0 && s.collectors[0].phase == unlinkerFree {
			return
		}
		s.collectors[n] = unlinker{unlinkerFirst, s.followers}
		yield(happened("collector %d finds that revision %d has ended", n, s.followers.revision), s)
	case unlinkerFirst:
		if s.collectors[n].phase = unlinkerSecond; !remove(first) {
			s.collectors[n] = unlinker{}
		}
		yield(happened("collector %d removes the first document of revision %d", n, c.has.revision), s)
	case unlinkerSecond:
		remove(second)
		s.collectors[n] = unlinker{}
		yield(happened("collector %d removes the second document of revision %d", n, c.has.revision), s)
	}
}

// underWay reports whether a host carries out an earlier change than the last.
func (m *unlinking) underWay(s *linked) bool {
	for _, h := range s.hosts {
		if h.phase >= linkerMirrors && h.has.revision < s.followers.revision && m.mutation != staleMirrored {
			return true
		}
	}
	return false
}

func (m *unlinking) wrong(s linked) string {
	switch {
	case s.followers.there() && !s.followers.pending && s.followers.open && !s.followers.same(s.following):
		return "fan-out uses an edge that rehydrations do not know"
	case s.following.open && (!s.followers.there() || !s.followers.pending && !s.followers.open):
		return "rehydrations use an edge that fan-out does not know"
	}
	return ""
}

func (m *unlinking) stuck(s linked) string {
	if s.following.there() && !s.followers.there() && !s.left {
		return "a document is left of an edge that was removed"
	}
	return ""
}

func (m *unlinking) show(s linked) string {
	return fmt.Sprintf("followers %+v, following %+v, hosts %+v, collectors %+v", s.followers, s.following, s.hosts, s.collectors)
}

func unlinkInstances() []instance {
	return []instance{
		{
			"unlink", "5 changes of an edge, 2 crashes; 2 hosts, 2 collectors", false,
			search(&unlinking{changes: 5, crashes: 2}),
		},
	}
}

func unlinkShortcuts() []shortcut {
	var all []shortcut
	unlinks := func(is mutation, name string) {
		all = append(all, shortcut{is, name, search(&unlinking{mutation: is, changes: 4, crashes: 1})})
	}
	unlinks(followersFirst, "remove an edge from followers first")
	unlinks(pendingUnlinked, "remove an edge that is pending")
	unlinks(unlinkedAnyway, "remove an edge that has changed since it was read")
	unlinks(firstFromOne, "a new edge begins with revision 1")
	unlinks(staleMirrored, "carry out a change however late")
	return all
}
