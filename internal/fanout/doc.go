// Package fanout copies published messages into the inboxes of their recipients (fan-out on write).
//
// The files follow a message through its life cycle:
//
//	router.go      takes published messages, delivers those with a small audience, and plans the others
//	queue.go       the messages that a router holds
//	audience.go    measures the audience; its size selects the lane
//	direct.go      delivers messages to all of their recipients and ends them, or turns them into tasks, one for each partition
//	worker.go      takes a task when a worker slot is free, and removes the tasks when their batch is done
//	slots.go       the worker slots of a lane
//	batch.go       processes the tasks that wait in one lane and partition together, from open to finish
//	scan.go        selects the scans that move in a batch, and reads their audiences
//	merge.go       merges the audiences into one ascending sequence of recipients
//	append.go      a pass: looks up the recipients and appends the messages to their inboxes
//	resume.go      routes messages again whose fan-out has stopped
//	queued.go      asks the bus which messages it has
//	headstart.go   delivers head starts of routed messages, beside the scan
//	deadletter.go  takes tasks and events that cannot succeed out of the way
//
// # A batch
//
// A Deliverer processes a batch in this order:
//
//	take     hold one task, and with it the partition of its lane; read the other tasks that wait there
//	open     read the tasks' records and messages
//	append   merge the audiences; look up the recipients' states; skip dormant users; append once per inbox
//	record   move each task's scan forward, by compare-and-set
//	emit     emit a continuation for each task that is not done
//	finish   write the endings of messages that are done in all partitions, and remove their plans
//	remove   remove the tasks from the queue, the held task last
//
// The order makes a crash safe: after a crash between two steps the batch is repeated, and nothing is lost. A repeated
// append takes effect once (package bucket). Of two records of the same recipients the store refuses one (package
// progress).
//
// # The shared, circular scan
//
// A task joins the running scans of its partition at their position. It moves with them to the end, continues at the
// beginning, and is done when it is back at its start. So all messages in a partition are at the same recipients at the
// same time, and a batch writes an inbox once for all of them. Databases call this a cooperative scan. After a crash,
// scans can be at different positions. Then the scans at the lowest position move up to the next position, until all
// scans are one group again.
//
// A batch reads recipients only after it took the task. So the range that a task joins includes every user who began
// to follow before the message was stored.
//
// # What a hold guarantees
//
// While a worker holds a task, the bus gives no other worker a task of that lane and partition. This gives speed and
// order. Correctness does not depend on it: a worker whose hold has expired may continue at any time.
//
// The Resumer finds messages that are not done and have not moved for a while. A task that cannot succeed becomes a
// dead letter with its reason, and blocks no other task.
package fanout
