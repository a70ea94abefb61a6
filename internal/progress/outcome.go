package progress

import "github.com/fanmail/fanmail/pkg/message"

// GiveUp returns the scan after an operator has given it up. Only a dead scan can be given up; another one is returned unchanged.
func (s Scan) GiveUp() Scan {
	s.GivenUp = s.Dead
	return s
}

// Ended reports whether the scan is done or given up. Then it never moves again.
func (s Scan) Ended() bool { return s.Done || s.GivenUp }

// Open reports whether the scan moves: it is neither done nor dead. The router emits a task for each open scan.
func (s Scan) Open() bool { return !s.Done && !s.Dead }

// Dead reports whether a part of the fan-out is a dead letter that no operator has given up.
func (f Fanout) Dead() bool {
	for _, s := range f.Scans {
		if s.Dead && !s.GivenUp {
			return true
		}
	}
	return false
}

// Outcome returns the counts of a fan-out, which are final when it is done. The caller sets the rest.
func (f Fanout) Outcome() message.Ending {
	counts := f.Counts()
	ending := message.Ending{Lane: f.Lane, Delivered: counts.Delivered, Skipped: counts.Skipped}
	for _, s := range f.Scans {
		if s.GivenUp {
			ending.GivenUp++
		}
	}
	return ending
}
