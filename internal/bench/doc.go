// Package bench measures Fanmail, as "fanmail serve" runs it, beside the raw limit of the store below: in the same run, on the same
// disk or server, and on entries of the same size. Machines differ more than ratios do.
//
// Each benchmark makes a world: everything in this process, on a new store that is thrown away, filled by generators that make the
// same in each run. What is delivered is counted, and a benchmark whose counts are not exact fails.
package bench
