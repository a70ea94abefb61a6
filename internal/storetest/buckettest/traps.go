package buckettest

import (
	"testing"

	"github.com/fanmail/fanmail/pkg/bucket"
)

// traps are situations in which plausible simplifications of appending fail. The key names the simplification.
func traps() map[string]scenario {
	const far = 90_000 // an id far ahead of the others, as from a clock that is ahead
	return map[string]scenario{
		"comparing times instead of floors": {
			prefilled: numbers(10, 10, 49),
			writers:   []delivery{{ns: []int{far}}, {ns: []int{495}}, {ns: []int{far}}},
			switches:  2,
		},
		"one now for a batch": {
			prefilled: numbers(10, 10, 48),
			writers:   []delivery{{ns: []int{496, far, far + 1}}, {ns: []int{5, 497}}},
		},
		"one query over several buckets, or those below before the head": {
			prefilled: numbers(10, 10, 49),
			writers:   []delivery{{ns: []int{5, 6}}, {ns: []int{5}}, {ns: []int{700}}},
			switches:  2,
		},
		"looking below before the head, late messages": {
			prefilled: numbers(10, 10, 99),
			writers:   []delivery{{ns: []int{5, 2000}, hint: 1}, {ns: []int{5}, hint: 0}, {ns: []int{2001}, hint: 1}},
			switches:  2,
		},
		"looking again only if an earlier bucket was not full": {
			prefilled: numbers(10, 10, 155),
			writers:   []delivery{{ns: []int{20, 700, 710}}, {ns: []int{505, 700}, hint: 1}},
		},
		"a new bucket without its predecessor's last": {
			prefilled: append([]int{far}, numbers(10, 10, 98)...),
			writers:   []delivery{{ns: []int{1005, 1006, far}, hint: 1}, {ns: []int{1001, 1002}}},
		},
		"a new bucket whose messages are below its floor": {
			prefilled: append([]int{far}, numbers(10, 10, 49)...),
			writers:   []delivery{{ns: numbers(1001, 1, 52)}, {ns: []int{far, far + 1}}},
		},
		"all or nothing of several messages": {
			prefilled: numbers(10, 10, 48),
			writers:   []delivery{{ns: numbers(1000, 1, 5)}, {ns: numbers(1003, 1, 4)}},
		},
		"more messages than a bucket holds": {
			prefilled: numbers(10, 10, 47),
			writers:   []delivery{{ns: numbers(1, 2, 101)}, {ns: []int{3, 600}}},
		},
		"comparing the newest of several messages with the floor": {
			prefilled: numbers(10, 10, 60),
			writers:   []delivery{{ns: []int{20, 2000}, hint: 1}, {ns: []int{480, 505, 2000}, hint: 1}},
		},
		"removing a deleted entry": {
			prefilled: numbers(10, 10, 99),
			deleted:   []int{10, 500, 510, 990},
			writers:   []delivery{{ns: []int{10, 510, 2000}}, {ns: []int{500, 990, 2001}, hint: 1}},
		},
		"a hint far behind": {
			prefilled: numbers(10, 10, 249),
			writers:   []delivery{{ns: []int{10, 505, 5000}}, {ns: []int{2480, 5001}, hint: 3}},
		},
		"raising the hint before the bucket exists": {
			prefilled: numbers(10, 10, 50),
			writers:   []delivery{{ns: []int{1000}}, {ns: []int{1001}}, {ns: []int{1002}}},
			switches:  2,
		},
		"a counter and a push": {
			prefilled: numbers(10, 10, 49),
			writers:   []delivery{{ns: []int{1000}}, {ns: []int{1001}}},
		},
		"buckets of one slot": {
			writers: []delivery{{ns: []int{1}}, {ns: []int{2}}, {ns: []int{2}}}, size: 1,
		},
		"buckets of two slots": {
			prefilled: numbers(10, 10, 4), size: 2,
			writers:  []delivery{{ns: []int{15, 1000, 1001}}, {ns: []int{45, 1002}, hint: 1}, {ns: []int{1003}, hint: 1}},
			switches: 2,
		},
		"the first messages of an inbox": {
			writers:  []delivery{{ns: []int{1, 2}}, {ns: []int{2}}, {ns: numbers(1, 1, 51)}},
			switches: 2,
		},
	}
}

func (s suite) testTraps(t *testing.T) { s.runScenarios(t, traps()) }

// appendedSurvivesReopen appends, simulates a crash of the store, and appends the same again.
func (s suite) appendedSurvivesReopen(t *testing.T) {
	t.Parallel()
	h := s.open(t)
	sc := scenario{writers: []delivery{{ns: numbers(1, 1, 120)}, {ns: []int{7, 500}}}}
	st := sc.set(t, h.Store, "ann")
	t.Cleanup(st.stop)
	for len(st.runnable()) > 0 {
		requireSound(t, st.step(t, st.runnable()[0], noFault), "before the crash")
	}
	h = h.Reopen(t)
	st.store, st.hints = h.Store, &hintBook{store: h.Store, hint: bucket.Hint{}}
	sc.finish(t, []*stage{st}, [][]string{{"after the crash"}})
}
