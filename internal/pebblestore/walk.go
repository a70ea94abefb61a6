package pebblestore

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"
)

const (
	// fewSteps is how many keys a walk steps over before it searches. A step is cheaper than a search.
	fewSteps = 2
	// sparse is after how many searches in a row a walk takes no steps, but for every sparseth key.
	sparse = 16
)

// walk reads at keys that mostly ascend. It steps from one to the next where they are neighbors in the store, and searches where they are far
// apart.
type walk struct {
	*pebble.Iterator
	searches int // in a row
}

// seek moves to the first key that is not below the given one, and reports whether there is one.
func (w *walk) seek(key []byte) bool {
	order := 1
	if w.Valid() {
		order = bytes.Compare(w.Key(), key)
	}
	if order < 0 && (w.searches < sparse || w.searches%sparse == 0) {
		for range fewSteps {
			if !w.Next() {
				return false // nothing is above the last position, and so above the key
			}
			if order = bytes.Compare(w.Key(), key); order >= 0 {
				w.searches = 0
				return true
			}
		}
	}
	if order == 0 {
		w.searches = 0
		return true
	}
	w.searches++
	return w.SeekGE(key)
}
