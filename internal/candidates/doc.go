// Package candidates keeps the users who get head starts: those who have viewed their inbox within the last minutes, and those with the
// most followers.
//
// Candidates are hints. A wrong or a lost one changes only when a message arrives, never whether it does. So viewers have no record:
// each process keeps a bounded set in memory, and processes tell each other by a broadcast that may lose anything. The users with the
// most followers have a record of samples (package popular), which each process reads and changes once a minute.
package candidates
