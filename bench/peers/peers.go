package main

// peer is one row of the comparison.
type peer struct {
	// name names the row. kind is the program that accepts and delivers the messages.
	name, kind string
	// perJob is the number of followers of a job.
	perJob int
	// appendfsync is the setting of Redis; empty if the row needs no Redis. postgres says whether it needs PostgreSQL.
	appendfsync string
	postgres    bool
	// store is where the inboxes are: redis, postgres or fanmail.
	store string
	// delivered says what the reader finds, and durable what survives.
	delivered, durable string
}

const (
	inSortedSet = "the message is an element of the follower's sorted set"
	inTable     = "the committed row (owner, id) holds the message"
	everySecond = "a crash of the machine may lose the last two seconds: accepted messages, jobs and inboxes; a job may run twice, and adds the same element"
	everyWrite  = "every write is synced before its answer; a job may run twice, and adds the same element"
	oneCommit   = "the rows and the end of their job are one synced commit: exactly once"
	twoSystems  = "every write of Redis and every commit is synced before its answer; a step may run twice, and finds its row"
	fanmails    = "accepted messages are synced, and the entries before the status says done, for which the reader waits: exactly once; the bus is synced every two minutes, and repeats what it loses"
)

// peers are all rows.
var peers = []peer{
	{"asynq, 1 follower a job, everysec", "asynq", 1, "everysec", false, "redis", inSortedSet, everySecond},
	{"asynq, 1,000 followers a job, everysec", "asynq", 1000, "everysec", false, "redis", inSortedSet, everySecond},
	{"asynq, 1 follower a job, always", "asynq", 1, "always", false, "redis", inSortedSet, everyWrite},
	{"asynq, 1,000 followers a job, always", "asynq", 1000, "always", false, "redis", inSortedSet, everyWrite},
	{"River, 1 follower a job", "river", 1, "", true, "postgres", inTable, oneCommit},
	{"River, 1,000 followers a job", "river", 1000, "", true, "postgres", inTable, oneCommit},
	{"BullMQ, as Novu", "bullmq", 1, "always", true, "postgres", inTable, twoSystems},
	{"Fanmail, embedded store", "fanmail", 0, "", false, "fanmail", "the inbox, read over HTTP, holds the message", fanmails},
}
