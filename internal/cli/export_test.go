package cli

import "time"

// NewRoot returns the command fanmail.
var NewRoot = newRoot

// WatchEvery sets how often the progress of a message is printed.
func WatchEvery(every time.Duration) { watchEvery = every }
