// Package bench measures beside the raw limit of the store below, in the same run and on the same entries, so that what
// counts, the ratio, can be compared between machines: the fan-out, accepting messages, and coming back.
//
//	go test -run '^$' -bench . -benchtime 1x ./test/bench
//
// The stampede measures a server in a process of its own beside what the same server does without one, and then reads
// every inbox. It takes some minutes, and a machine on which nothing else runs:
//
//	go test -run '^$' -bench Stampede -benchtime 1x -timeout 30m ./test/bench
package bench
