// Package bench measures the fan-out beside the raw limit of the store below it, in the same run and on the same
// entries, so that what counts, the ratio, can be compared between machines.
//
//	go test -run '^$' -bench . ./test/bench
package bench
