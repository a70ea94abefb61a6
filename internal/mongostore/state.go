package mongostore

import (
	"errors"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fanmail/fanmail/internal/partition"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// userRecord is the stored form of a user's state. Absent fields are zero.
type userRecord struct {
	ID        message.UserID `bson:"_id,omitempty"`
	Version   int32          `bson:"v"`
	Partition int32          `bson:"partition"`
	// LastViewed and Horizon are absent if the user was never seen.
	LastViewed *bson.DateTime  `bson:"last_viewed,omitempty"`
	Horizon    *bson.DateTime  `bson:"horizon,omitempty"`
	Head       *headRecord     `bson:"head,omitempty"`
	ReadMark   *readMarkRecord `bson:"read_mark,omitempty"`
	Mark       *markRecord     `bson:"mark,omitempty"`
	Sweep      *sweepRecord    `bson:"sweep,omitempty"`
	Lease      *leaseRecord    `bson:"lease,omitempty"`
	Gaps       []gapRecord     `bson:"gaps,omitempty"`
	Recovered  int64           `bson:"recovered,omitempty"`
	Flagged    bool            `bson:"flagged,omitempty"`
	Seen       int64           `bson:"seen,omitempty"`
	Marks      int64           `bson:"marks,omitempty"`
	GapsMade   int64           `bson:"gaps_made,omitempty"`
	// Purged is absent until messages expire.
	Purged *purgedRecord `bson:"purged,omitempty"`
	// Keep is absent unless the user has a retention of their own.
	Keep *keepRecord `bson:"keep,omitempty"`
	// Due is when the lease of a mark or a sweep ends. It exists only while one of them does, because an index holds it.
	Due *bson.DateTime `bson:"due,omitempty"`
	// Step is the token of the last step. A caller that repeats a step after a lost reply recognizes its own step by it.
	Step bson.ObjectID `bson:"step,omitempty"`
}

type headRecord struct {
	Sequence int64       `bson:"sequence"`
	Floor    bson.Binary `bson:"floor"`
	Decl     int32       `bson:"decl,omitempty"`
}

type readMarkRecord struct {
	UpTo     bson.Binary `bson:"up_to"`
	Sequence int64       `bson:"sequence"`
	Slots    int64       `bson:"slots"`
	Gaps     int64       `bson:"gaps"`
	Read     int64       `bson:"read"`
	InGap    int64       `bson:"in_gap"`
}

type markRecord struct {
	From    bson.DateTime `bson:"from"`
	Bounded bool          `bson:"bounded"`
}

type sweepRecord struct {
	From bson.DateTime `bson:"from"`
}

type leaseRecord struct {
	Token string        `bson:"token"`
	Until bson.DateTime `bson:"until"`
	Since bson.DateTime `bson:"since"`
}

type gapRecord struct {
	After    bson.DateTime `bson:"after"`
	Before   bson.DateTime `bson:"before"`
	Messages int64         `bson:"messages"`
}

type purgedRecord struct {
	UpTo   bson.Binary `bson:"up_to"`
	Oldest int64       `bson:"oldest"`
}

type keepRecord struct {
	MaxAge int64 `bson:"max_age,omitempty"` // in milliseconds
	Newest int64 `bson:"newest,omitempty"`
}

// recordOfState returns a record with the fields that Step compares and replaces.
func recordOfState(st userstate.State, partitions int) userRecord {
	r := userRecord{
		ID: st.User, Version: version, Partition: int32(partition.Of(st.User, partitions)), //nolint:gosec // at most partition.MaxCount
		Recovered: st.Recovered, Flagged: st.Flagged, Seen: st.Seen, Marks: st.Marks, GapsMade: st.GapsMade,
	}
	if st.Known() {
		r.LastViewed = new(date(st.LastViewed))
	}
	if !st.Horizon.IsZero() {
		r.Horizon = new(date(st.Horizon))
	}
	if m := st.ReadMark; m != (bucket.ReadMark{}) {
		r.ReadMark = &readMarkRecord{UpTo: uuid(m.UpTo), Sequence: int64(m.Sequence), Slots: m.Slots, Gaps: int64(m.Gaps), Read: m.Read, InGap: m.InGap}
	}
	if !st.Purged.IsZero() {
		r.Purged = &purgedRecord{UpTo: uuid(st.Purged), Oldest: int64(st.Oldest)}
	}
	if st.Keep != (userstate.Retention{}) {
		r.Keep = &keepRecord{MaxAge: st.Keep.MaxAge.Milliseconds(), Newest: st.Keep.Newest}
	}
	if st.Mark != nil {
		r.Mark = &markRecord{From: date(st.Mark.From), Bounded: st.Mark.Bounded}
	}
	if st.Sweep != nil {
		r.Sweep = &sweepRecord{From: date(st.Sweep.From)}
	}
	if st.Lease != (userstate.Lease{}) {
		r.Lease = &leaseRecord{Token: st.Lease.Token, Until: date(st.Lease.Until), Since: date(st.Lease.Since)}
	}
	if st.Mark != nil || st.Sweep != nil {
		r.Due = new(date(st.Lease.Until))
	}
	for _, g := range st.Gaps {
		r.Gaps = append(r.Gaps, gapRecord{After: date(g.After), Before: date(g.Before), Messages: g.Messages})
	}
	return r
}

// state decodes the state.
func (r *userRecord) state() (st userstate.State, err error) {
	st = userstate.State{User: r.ID, Recovered: r.Recovered, Flagged: r.Flagged, Seen: r.Seen, Marks: r.Marks, GapsMade: r.GapsMade}
	if r.LastViewed != nil {
		st.LastViewed = timeOf(*r.LastViewed)
	}
	if r.Horizon != nil {
		st.Horizon = timeOf(*r.Horizon)
	}
	if r.Head != nil {
		if st.Head, err = r.Head.hint(); err != nil {
			return st, err
		}
	}
	if r.ReadMark != nil {
		if st.ReadMark, err = r.ReadMark.mark(); err != nil {
			return st, err
		}
	}
	if r.Purged != nil {
		if st.Oldest, err = sequenceOf(r.Purged.Oldest); err != nil {
			return st, err
		}
		if st.Purged, err = idOf(usersName, r.Purged.UpTo); err != nil {
			return st, err
		}
	}
	if r.Keep != nil {
		st.Keep = userstate.Retention{MaxAge: time.Duration(r.Keep.MaxAge) * time.Millisecond, Newest: r.Keep.Newest}
	}
	if r.Mark != nil {
		st.Mark = &userstate.Mark{From: timeOf(r.Mark.From), Bounded: r.Mark.Bounded}
	}
	if r.Sweep != nil {
		st.Sweep = &userstate.Sweep{From: timeOf(r.Sweep.From)}
	}
	if r.Lease != nil {
		st.Lease = userstate.Lease{Token: r.Lease.Token, Until: timeOf(r.Lease.Until), Since: timeOf(r.Lease.Since)}
	}
	for _, g := range r.Gaps {
		st.Gaps = append(st.Gaps, userstate.Gap{After: timeOf(g.After), Before: timeOf(g.Before), Messages: g.Messages})
	}
	return st, nil
}

func (r headRecord) hint() (h bucket.Hint, err error) {
	if h.Sequence, err = sequenceOf(r.Sequence); err == nil {
		h.Decl = int(r.Decl)
		h.Floor, err = idOf(usersName, r.Floor)
	}
	return h, err
}

func (r readMarkRecord) mark() (m bucket.ReadMark, err error) {
	m = bucket.ReadMark{Slots: r.Slots, Gaps: int(r.Gaps), Read: r.Read, InGap: r.InGap}
	if m.Sequence, err = sequenceOf(r.Sequence); err == nil {
		m.UpTo, err = idOf(usersName, r.UpTo)
	}
	return m, err
}

func sequenceOf(n int64) (uint32, error) {
	if n < 0 || n > math.MaxUint32 {
		return 0, corrupt(usersName, errors.New("a sequence is out of range"))
	}
	return uint32(n), nil
}
