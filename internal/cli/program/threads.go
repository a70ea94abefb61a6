package program

import (
	"os"
	"runtime"
)

// leastThreads is how many threads run Go code at once at least. With as many threads as one or two cores have, a fan-out keeps all of
// them busy, and a direct message waits for Go's scheduler, up to 10 ms at each step. The system gives a thread that wakes a core at once.
const leastThreads = 8

// ShareCores lets at least 8 threads run Go code at once, for the whole process. It leaves what GOMAXPROCS says, or Go has chosen because of a
// quota of the container: more threads would only use it up sooner, and wait for the next period. Go chooses at least 2, so on two cores no quota is noticed.
func ShareCores() {
	if procs := runtime.GOMAXPROCS(0); os.Getenv("GOMAXPROCS") == "" && procs == runtime.NumCPU() && procs < leastThreads {
		runtime.GOMAXPROCS(leastThreads)
	}
}
