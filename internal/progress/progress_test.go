package progress_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/message"
)

func TestScanJoin(t *testing.T) {
	t.Parallel()
	joined := progress.Scan{}.Join("m")
	require.Equal(t, progress.Scan{Joined: true, Start: "m", At: "m"}, joined)
	require.Equal(t, joined, joined.Join("x"), "a second Join changes nothing")
	require.Equal(t, progress.Scan{Joined: true}, progress.Scan{}.Join(""))
}

func TestScanAdvance(t *testing.T) {
	t.Parallel()
	scan := func(start, at message.UserID) progress.Scan { return progress.Scan{Joined: true, Start: start, At: at} }
	for _, test := range []struct {
		name    string
		scan    progress.Scan
		end     message.UserID
		toEnd   bool
		at      message.UserID
		wrapped bool
		done    bool
	}{
		{"from the beginning", scan("", ""), "c", false, "c", false, false},
		{"from the beginning to the end", scan("", "c"), "", true, "", false, true},
		{"from the beginning at once", scan("", ""), "", true, "", false, true},
		{"from the middle", scan("m", "m"), "p", false, "p", false, false},
		{"from the middle to the end", scan("m", "p"), "", true, "", true, false},
		{"end is ignored if toEnd is set", scan("m", "p"), "q", true, "", true, false},
		{"wrapped", scan("m", ""), "c", false, "c", true, false},
		{"wrapped, further", scan("m", "c"), "f", false, "f", true, false},
		{"wrapped, back at the start", scan("m", "f"), "m", false, "m", false, true},
		{"wrapped, beyond a start that has left the audience", scan("m", "f"), "n", false, "m", false, true},
		{"wrapped, to the end of a partition whose users above start have left", scan("m", "f"), "", true, "m", false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := test.scan.Advance(test.end, test.toEnd, progress.Counts{Delivered: 3, Skipped: 2})
			require.Equal(t, progress.Scan{Joined: true, Start: test.scan.Start, At: test.at, Delivered: 3, Skipped: 2, Done: test.done}, got)
			require.Equal(t, test.wrapped, got.Wrapped())
		})
	}
}

func TestScanSame(t *testing.T) {
	t.Parallel()
	base := progress.Scan{Joined: true, Start: "c", At: "m"}
	counted := base
	counted.Delivered, counted.Skipped = 7, 8
	require.True(t, base.Same(counted), "counts do not matter")
	for name, change := range map[string]func(*progress.Scan){
		"joined":   func(s *progress.Scan) { s.Joined = false },
		"start":    func(s *progress.Scan) { s.Start = "b" },
		"at":       func(s *progress.Scan) { s.At = "n" },
		"done":     func(s *progress.Scan) { s.Done = true },
		"dead":     func(s *progress.Scan) { s.Dead = true },
		"given up": func(s *progress.Scan) { s.GivenUp = true },
	} {
		other := base
		change(&other)
		require.False(t, base.Same(other), name)
		require.False(t, other.Same(base), name)
	}
}

// A scan visits every recipient exactly once, wherever it starts and wherever its batches end. Ahead is right for every recipient
// after each batch.
func TestScanVisitsEverybodyOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const letters = "abcdefghijklmnopq"
		var users []message.UserID // every other letter
		for i := range rapid.IntRange(0, 8).Draw(t, "users") {
			users = append(users, message.UserID(letters[2*i+1:2*i+2]))
		}
		// The scan starts at the beginning, at a user, or between two users where a user has left the audience.
		at := rapid.IntRange(0, len(letters)).Draw(t, "start")
		start := message.UserID(letters[max(0, at-1):at])
		scan := progress.Scan{}.Join(start)
		visits := map[message.UserID]int{}
		for batches := 0; !scan.Done; batches++ {
			require.Less(t, batches, 50, "the scan does not end")
			for _, user := range users {
				require.Equal(t, visits[user] == 0, scan.Ahead(user), "Ahead(%s) of a scan at %q that started at %q", user, scan.At, start)
			}
			var ahead []message.UserID // the recipients that a worker reads above At: up to the end of the partition or up to Start
			for _, user := range users {
				if user > scan.At && (!scan.Wrapped() || user <= start) {
					ahead = append(ahead, user)
				}
			}
			size := rapid.IntRange(1, 4).Draw(t, "batch")
			if size > len(ahead) {
				scan = visit(scan, visits, ahead, "", true)
				continue
			}
			scan = visit(scan, visits, ahead[:size], ahead[size-1], false)
		}
		for _, user := range users {
			require.Equal(t, 1, visits[user], user)
			require.False(t, scan.Ahead(user))
		}
		require.Equal(t, int64(len(users)), scan.Delivered)
		require.Equal(t, start, scan.At)
	})
}

// A scan whose batches miss recipients reaches everybody in the end, and counts each once. What is counted never falls.
func TestScanComesBackToWhomItMissed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		users := []message.UserID{"b", "d", "f", "h", "j"}
		scan := progress.Scan{}.Join(rapid.SampledFrom([]message.UserID{"", "a", "d", "g", "j", "k"}).Draw(t, "start"))
		reached := make(map[message.UserID]bool)
		misses := rapid.IntRange(1, 6).Draw(t, "misses")
		for batches := 0; !scan.Done; batches++ {
			require.Less(t, batches, 100, "the scan does not end")
			end, toEnd := message.UserID(""), true
			size := rapid.IntRange(1, 3).Draw(t, "batch")
			counted, missed := scan.Delivered, false
			var batch progress.Counts
			for _, user := range users {
				switch {
				case user <= scan.At:
					continue
				case size == 0:
					toEnd = false
				}
				if !toEnd {
					break
				}
				size--
				if end = user; !scan.Ahead(user) {
					continue
				}
				if misses > 0 && rapid.Bool().Draw(t, "missed") {
					misses--
					missed = true
					continue
				}
				reached[user] = true
				batch.Delivered++
			}
			if missed {
				scan = scan.Miss(end, toEnd)
			} else {
				scan = scan.Advance(end, toEnd, batch)
			}
			require.GreaterOrEqual(t, scan.Delivered, counted)
		}
		require.Len(t, reached, len(users))
		require.Equal(t, int64(len(users)), scan.Delivered)
		require.Equal(t, progress.Arc{}, scan.Arc)
	})
}

func visit(scan progress.Scan, visits map[message.UserID]int, users []message.UserID, end message.UserID, toEnd bool) progress.Scan {
	for _, user := range users {
		visits[user]++
	}
	return scan.Advance(end, toEnd, progress.Counts{Delivered: int64(len(users))})
}

func TestFanout(t *testing.T) {
	t.Parallel()
	done := progress.Scan{}.Join("").Advance("", true, progress.Counts{Delivered: 3, Skipped: 1})
	under := progress.Scan{}.Join("m").Advance("x", false, progress.Counts{Delivered: 2, Skipped: 5})
	dead := under
	dead.Dead = true
	for _, test := range []struct {
		name   string
		scans  map[int]progress.Scan
		done   bool
		counts progress.Counts
	}{
		{"without scans", nil, true, progress.Counts{}},
		{"not begun", map[int]progress.Scan{0: {}}, false, progress.Counts{}},
		{"running", map[int]progress.Scan{0: done, 7: under}, false, progress.Counts{Delivered: 5, Skipped: 6}},
		{"dead", map[int]progress.Scan{0: done, 7: dead}, false, progress.Counts{Delivered: 5, Skipped: 6}},
		{"given up", map[int]progress.Scan{0: done, 7: dead.GiveUp()}, true, progress.Counts{Delivered: 5, Skipped: 6}},
		{"done", map[int]progress.Scan{0: done, 7: done}, true, progress.Counts{Delivered: 6, Skipped: 2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := progress.Fanout{Scans: test.scans}
			require.Equal(t, test.done, f.Done())
			require.Equal(t, test.counts, f.Counts())
		})
	}
}
