package identity

import (
	"context"
	"errors"
	"time"

	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// MaxPerUser is the greatest number of items in a user's list.
	MaxPerUser = 20
	// MaxLookup is the greatest number of identities that Store.Lookup takes.
	MaxLookup = 1000
)

var (
	// ErrNotFound says that an identity belongs to no user.
	ErrNotFound = errors.New("identity not found")
	// ErrTaken says that an identity belongs to another user.
	ErrTaken = errors.New("the identity belongs to another user")
	// ErrFull says that a user has MaxPerUser identities.
	ErrFull = errors.New("the user has 20 identities: delete one first")
	// ErrChanged says that a list is another one than the caller read.
	ErrChanged = errors.New("the user's list of identities has changed")
)

// Number tells the inserts of records apart, and the states of a list. It is random and never used twice. The zero number stands for
// a record or a list that does not exist.
type Number [12]byte

// Record says whose an identity is.
type Record struct {
	Identity Identity
	User     message.UserID
	// Number is new for each insert of the identity.
	Number Number
	// InForce is whether the user has the identity. Before, the claim is under way.
	InForce bool
	// Form is the version of the canonical form of the value.
	Form int
	// Since is when the record was inserted, in milliseconds.
	Since time.Time
}

// Exists reports whether there is a record.
func (r Record) Exists() bool { return r.Number != Number{} }

// Looked is the record of an identity, or an error that concerns only this record and wraps message.ErrCorrupt. The record has only the
// identity if there is none, or with an error.
type Looked struct {
	Record Record
	Err    error
}

// Item is an identity in a user's list. It is dead, and means nothing, unless the record of the identity has its number.
type Item struct {
	Identity Identity
	Number   Number
}

// List is the list of a user's identities. It has at most MaxPerUser items, in the order in which they were added.
type List struct {
	User  message.UserID
	Items []Item
	// Revision is new for each change. It is zero if the user has no list.
	Revision Number
}

// LookedList is the list of a user, or an error that concerns only this list and wraps message.ErrCorrupt.
type LookedList struct {
	List List
	Err  error
}

// Change sets the items of a list.
type Change struct {
	From  List
	Items []Item
}

// Store keeps the records of identities and the lists of users. Implementations are safe for concurrent use. Methods with several
// arguments are atomic for each of them alone, and return results in the order of the arguments, which must be distinct. A result that a method
// returns is durable. Every method returns an error that wraps message.ErrUnavailable if the store cannot be reached; the change may
// have happened then.
type Store interface {
	// Lookup returns the records of at most MaxLookup identities. It alone may return a record that a crash of an embedded store undoes.
	Lookup(ctx context.Context, ids []Identity) ([]Looked, error)
	// Insert inserts each record of whose identity there is none, not in force and under a number that Insert chooses. It returns the
	// records that are there. A result without a number says that a record was there and has been removed meanwhile.
	//
	// If the answer of a server is lost, Insert tries again under another number. So no number is inserted twice. The first attempt may be
	// carried out later, but not after another insert of the identity.
	Insert(ctx context.Context, records []Record) ([]Looked, error)
	// Confirm puts each record in force that has the given number, and returns the records that are there.
	Confirm(ctx context.Context, records []Record) ([]Looked, error)
	// Withdraw removes a record that has the given number and is not in force. It returns false if the record is in force with this number.
	Withdraw(ctx context.Context, r Record) (bool, error)
	// Remove removes a record that has the given number.
	Remove(ctx context.Context, r Record) error
	// Lists returns the lists of at most MaxLookup users.
	Lists(ctx context.Context, users []message.UserID) ([]LookedList, error)
	// ReplaceLists makes each change whose list has the revision of From. It returns ErrChanged for every other, and an error that wraps
	// message.ErrCorrupt for a list that cannot be read. A list without items is removed.
	ReplaceLists(ctx context.Context, changes []Change) ([]error, error)
}
