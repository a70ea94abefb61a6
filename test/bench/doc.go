// Package bench measures what takes a past, or another recipe, to measure, beside the raw limit of the store below, in the same run:
// coming back after a year, a stampede of those who do, and the classic recipe on MongoDB. Everything else is what "fanmail bench"
// is for.
//
//	go test -run '^$' -bench . -benchtime 1x ./test/bench
//
// The stampede measures a server in a process of its own beside what the same server does without one, and then reads
// every inbox. It takes some minutes, and a machine on which nothing else runs:
//
//	go test -run '^$' -bench Stampede -benchtime 1x -timeout 30m ./test/bench
package bench
