// Package bench measures Fanmail as "fanmail serve" runs it. The same run measures the raw limit of the store, on the same disk or
// database server and with entries of the same size. Compare their ratio, because rates differ much more between machines.
//
// Each benchmark runs a world: a server in this process on a new, temporary store. Generators fill the store with the same data in
// every run. A benchmark fails if the counts of its deliveries are not exact.
package bench
