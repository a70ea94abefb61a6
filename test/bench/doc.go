// Package bench measures what "fanmail bench" does not: the first page of users who return after a year beside the reads that it needs, and a
// stampede of returning users.
//
//	go test -run '^$' -bench . -benchtime 1x ./test/bench
//
// The stampede measures a server in a process of its own beside what the same server does without one, and then reads
// every inbox. It takes some minutes, and a machine on which nothing else runs:
//
//	go test -run '^$' -bench Stampede -benchtime 1x -timeout 30m ./test/bench
package bench
