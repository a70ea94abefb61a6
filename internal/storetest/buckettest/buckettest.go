// Package buckettest holds every implementation of bucket.Store to what its comments say, alone and under the Appender. Stalls, repeats,
// lost replies and crashes come between any two operations. Model is the contract as a program, and Seam the place where a test steps in.
package buckettest

import (
	"testing"

	"github.com/fanmail/fanmail/pkg/bucket"
)

// Harness is a freshly opened, empty store.
type Harness struct {
	Store bucket.Store
	// Index is that of the store; nil if there is none.
	Index bucket.Index
	// Reopen lets the store crash, or closes it where it cannot, and opens what it left behind. Nothing of the
	// old harness is used after that.
	Reopen func(t *testing.T) Harness
	// Interleavings is how many orders of the writers' operations are tried for each scenario, drawn at random; 0 is all of them. Model is
	// always put through all.
	Interleavings int
}

// Run holds a store to the contract of bucket.Store, and the Appender and the reading of pages to their promises
// on that store. Every test opens stores of its own, with buckets of a size; open registers their closing with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T, size int) Harness) {
	t.Helper()
	s := suite{sized: open}
	t.Run("Push/applies under its conditions", s.pushConditions)
	t.Run("Push/creates", s.pushCreates)
	t.Run("Push/for many owners", s.pushManyOwners)
	t.Run("Push/keeps contents", s.pushKeepsContents)
	t.Run("Push/of the largest entry", s.pushLargest)
	t.Run("Push/of what is too large", s.pushTooLarge)
	t.Run("Push/keeps no reference", s.pushKeepsNoReference)
	t.Run("Push/of a tombstone", s.pushTombstone)
	t.Run("Push/of a tombstone under its conditions", s.pushTombstoneConditions)
	t.Run("Push/of a tombstone with others", s.pushTombstoneNotAlone)
	t.Run("Push/of tombstones and entries by many", s.pushTombstonesConcurrently)
	t.Run("Push/onto one bucket by many fills it exactly", s.pushConcurrently)
	t.Run("Push/creates a bucket once", s.createConcurrently)
	t.Run("Heads/in the order of hints", s.heads)
	t.Run("Range/both ends included, the highest first", s.ranges)
	t.Run("Range/of a field, or without entries", s.rangesOfField)
	t.Run("Newest/is what Range and Deletions say", s.newest)
	t.Run("Range/buckets to which a message came late", s.late)
	t.Run("Range/of an entry at the floor", s.lateAtFloor)
	t.Run("Range/of many is that of each", s.rangesOfMany)
	t.Run("Deletions/of many are those of each", s.deletionsOfMany)
	t.Run("Counts/of many inboxes", s.countsOfMany)
	t.Run("Delete/leaves a tombstone", s.deleteLeavesTombstone)
	t.Run("Delete/of an unknown entry", s.deleteUnknown)
	t.Run("Delete/while others push and read", s.deleteWhilePushing)
	t.Run("Blank/leaves a tombstone without an id", s.blankLeavesTombstone)
	t.Run("Blank/only the entry that is there", s.blankRefuses)
	t.Run("Blank/leaves the order of buckets", s.blankKeepsLast)
	s.runEmpty(t)
	t.Run("Deletions/counts all and returns the recent", s.deletionsCounted)
	t.Run("Declare/pushes name a decl", s.pushNamesDecl)
	t.Run("Declare/beside writers at random", s.randomDeclarations)
	t.Run("Declare/and hints", s.declaredHints)
	t.Run("Declare/beyond a full bucket", s.declaredBeyondFull)
	t.Run("Declare/pages read few buckets", s.searchesCost)
	t.Run("Declare/pages beside an emptier", s.searchesBesideEmptier)
	t.Run("Declare/beside writers in parallel", s.declareInParallel)
	t.Run("Reopen/keeps buckets", s.reopenKeepsBuckets)
	t.Run("Append/by many in parallel", s.appendConcurrently)
	t.Run("Append/avoids the trap of", s.testTraps)
	t.Run("Append/by writers at random", s.randomWriters)
	t.Run("Append/survives reopening", s.appendedSurvivesReopen)
	t.Run("Pages/and counts at random", s.randomReaders)
	t.Run("Pages/and counts of rehydrations at random", s.randomRehydrations)
	t.Run("Pages/of what is in no bucket", s.absentOnly)
	t.Run("Pages/take few buckets", s.pagesCost)
	t.Run("Pages/read buckets above only for late messages", s.pagesReadLateBuckets)
	t.Run("Pages/below a cursor to too low a bucket", s.lowCursor)
	t.Run("Pages/of an empty inbox", s.emptyInbox)
	t.Run("Pages/below a foreign cursor", s.foreignCursor)
}

// RunEmpty is the part of Run that empties buckets.
func RunEmpty(t *testing.T, open func(t *testing.T, size int) Harness) {
	t.Helper()
	suite{sized: open}.runEmpty(t)
}

func (s suite) runEmpty(t *testing.T) {
	t.Helper()
	t.Run("Empty/makes a stub of a full bucket", s.emptyMakesStub)
	t.Run("Empty/keeps the ids of a bucket with room", s.emptyKeepsIDs)
	t.Run("Empty/under its conditions", s.emptyConditions)
	t.Run("Empty/and what pushes do then", s.pushesAfterEmpty)
	t.Run("Empty/of a full head", s.emptyFullHead)
	t.Run("Empty/in any order", s.emptyInAnyOrder)
	t.Run("Empty/and what Delete and Blank do then", s.changesAfterEmpty)
	t.Run("Empty/step by step", s.emptySteps)
	t.Run("Empty/and pages", s.pagesAfterEmpty)
	t.Run("Empty/and read marks", s.marksAfterEmpty)
	t.Run("Empty/beside writers", s.testEmptyings)
	t.Run("Empty/beside writers at random", s.randomEmptyings)
}

type suite struct {
	sized func(t *testing.T, size int) Harness
}

// open opens a store with buckets of 50 slots.
func (s suite) open(t *testing.T) Harness { t.Helper(); return s.sized(t, bucket.Capacity) }
