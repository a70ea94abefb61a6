package pebblestore

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"time"

	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
)

// Every key begins with a byte that names its space. User ids and topics have no control characters, so that a zero byte ends
// them and keeps their order: what belongs to one user is one range, and ranges are in the order of users. Numbers are big-endian. A
// partition comes before the users in it. Fan-out goes through the users of one partition in ascending order, and finds edges, states and
// inboxes side by side.
//
//	space        key                                       value
//	'!' format   !                                         partitions, bucket capacity, recorded settings
//	             ! e                                       epoch, and whether the store was closed
//	'a' authors  a source 00 id[16]                        when the message, to followers or subscribers, was stored
//	'b' removed  b partition[2] owner 00                   lowest bucket that is left, and what stands for those below
//	'c' counts   c                                         what processes have done whose rows are taken
//	             c p name                                  row of a process
//	'd' deleted  d partition[2] owner 00                   how many tombstones the inbox has
//	             d partition[2] owner 00 seq[4] slot[1]    id of the tombstone there
//	'e' endings  e id[16]                                  how the fan-out of the message ended
//	'f' follower f source 00 partition[2] follower         spans of the edge, number of the topic
//	'g' followee g follower 00 source                      spans of the edge, the same
//	'h' identity h kind : value                            whose it is
//	'i' inbox    i partition[2] owner 00 seq[4] slot[1]    entry or tombstone
//	'k' keys     k sha256(from 00 key)[32]                 idempotency key
//	'l' late     l partition[2] owner 00 seq[4]            least id at or below the bucket's floor
//	'm' messages m id[16]                                  message
//	'n' pending  n id[16]                                  author of a message that is not finished
//	'o' topics   o topic                                   numbers of the topic and its parent, in force, mark
//	'p' plans    p id[16]                                  when the fan-out moved last
//	             p id[16] partition[2]                     scan
//	'r' leases   r until[8] user                           none: finds the rehydrations whose leases die first
//	's' flags    s partition[2] owner 00                   state of single messages
//	't' naming   t user 00 id[16]                          none: finds the messages that name a user
//	'u' users    u partition[2] user                       state
//	'w' walk     w                                         how far the walk over all users is
//	'x' expiries x expires[8] sha256(from 00 key)[32]      none: finds the keys that expire first
//	'y' lists    y user                                    identities of the user
type space byte

const (
	spaceFormat     space = '!'
	spaceAuthors    space = 'a'
	spaceRemoved    space = 'b'
	spaceCounts     space = 'c'
	spaceDeleted    space = 'd'
	spaceEndings    space = 'e'
	spaceFollowers  space = 'f'
	spaceFollowing  space = 'g'
	spaceIdentities space = 'h'
	spaceInbox      space = 'i'
	spaceKeys       space = 'k'
	spaceLate       space = 'l'
	spaceMessages   space = 'm'
	spacePending    space = 'n'
	spaceTopics     space = 'o'
	spacePlans      space = 'p'
	spaceLeases     space = 'r'
	spaceFlags      space = 's'
	spaceNaming     space = 't'
	spaceUsers      space = 'u'
	spaceRound      space = 'w'
	spaceExpiries   space = 'x'
	spaceLists      space = 'y'
)

// name returns the name of the space, for errors.
func (s space) name() string {
	return map[space]string{
		spaceFormat: "format", spaceAuthors: "authors", spaceDeleted: "deleted", spaceFollowers: "followers",
		spaceFollowing: "following", spaceInbox: "inbox", spaceKeys: "keys", spaceLate: "late",
		spaceMessages: "messages", spacePending: "pending", spacePlans: "plans", spaceLeases: "leases",
		spaceRemoved: "removed", spaceNaming: "naming", spaceUsers: "users", spaceExpiries: "expiries",
		spaceRound: "walk", spaceEndings: "endings", spaceIdentities: "identities", spaceLists: "lists", spaceTopics: "topics",
		spaceFlags: "flags", spaceCounts: "counts",
	}[s]
}

// terminator ends a user id if other bytes follow.
const terminator = 0x00

// pastSlots is above every slot number.
const pastSlots = 0xff

// placeLen is the length of the bucket and the slot at the end of an entry's key.
const placeLen = 4 + 1

// partitionLen is the length of an encoded partition.
const partitionLen = 2

func appendPartition(b []byte, partition int) []byte {
	return binary.BigEndian.AppendUint16(b, uint16(partition)) //nolint:gosec // there are at most 256 partitions
}

// appendOwner appends the prefix of an owner's keys in the inbox, late, deleted, removed or flags space. In the deleted space, the prefix is
// also the key of the owner's total, and in the removed and flags spaces the only key.
func appendOwner(b []byte, s space, partition int, owner message.UserID) []byte {
	b = appendPartition(append(b, byte(s)), partition)
	return append(append(b, owner...), terminator)
}

// appendPlace appends a bucket and slot to an owner's prefix.
func appendPlace(b []byte, sequence uint32, slot int) []byte {
	return append(binary.BigEndian.AppendUint32(b, sequence), byte(slot)) //nolint:gosec // slots are below 256
}

// placeOf returns the bucket and the slot at the end of a key.
func placeOf(key []byte) (sequence uint32, slot int) {
	place := key[len(key)-placeLen:]
	return binary.BigEndian.Uint32(place), int(place[4])
}

// appendBucket appends a bucket to an owner's prefix.
func appendBucket(b []byte, sequence uint32) []byte {
	return binary.BigEndian.AppendUint32(b, sequence)
}

// bucketOf returns the bucket at the end of a key of the late space.
func bucketOf(key []byte) uint32 { return binary.BigEndian.Uint32(key[len(key)-4:]) }

// idKey returns a key of the messages, endings, pending or plans space.
func idKey(s space, id message.ID) []byte { return append([]byte{byte(s)}, id[:]...) }

// appendIndexed appends the prefix of all keys of a source in the authors space, or of a user in the naming space.
func appendIndexed(b []byte, s space, source message.Source) []byte {
	return append(append(append(b, byte(s)), source...), terminator)
}

// sourceKey returns the key of a message by one of its sources: its author, if it is for followers, or a topic.
func sourceKey(source message.Source, id message.ID) []byte {
	return append(appendIndexed(nil, spaceAuthors, source), id[:]...)
}

// namingKey returns the key of a message in the naming space.
func namingKey(user message.UserID, id message.ID) []byte {
	return append(appendIndexed(nil, spaceNaming, user.Source()), id[:]...)
}

// idOf returns the message id at the end of a key.
func idOf(key []byte) message.ID { return message.ID(key[len(key)-len(message.ID{}):]) }

// scanKey returns the key of a scan.
func scanKey(id message.ID, partition int) []byte {
	return appendPartition(idKey(spacePlans, id), partition)
}

// planLen is the length of the key of a plan. Those of its scans are longer.
const planLen = 1 + idLen

// planOf returns the message of a key of the plans space.
func planOf(key []byte) message.ID { return message.ID(key[1:planLen]) }

// partitionOf returns the partition at the end of a scan's key.
func partitionOf(key []byte) int { return int(binary.BigEndian.Uint16(key[len(key)-2:])) }

// appendUser appends a key of the users space.
func appendUser(b []byte, partition int, user message.UserID) []byte {
	return append(appendPartition(append(b, byte(spaceUsers)), partition), user...)
}

// audiencePrefix returns the prefix of the edges to a followee. The partition and the follower come behind it.
func audiencePrefix(followee message.Source) []byte {
	return append(append([]byte{byte(spaceFollowers)}, followee...), terminator)
}

// followersPrefix returns the prefix of the edges to a followee from one partition.
func followersPrefix(followee message.Source, partition int) []byte {
	return appendPartition(audiencePrefix(followee), partition)
}

// followingPrefix returns the prefix of the edges from a follower.
func followingPrefix(follower message.UserID) []byte {
	return append(append([]byte{byte(spaceFollowing)}, follower...), terminator)
}

// identityKey returns the key of an identity.
func identityKey(id identity.Identity) []byte {
	return append([]byte{byte(spaceIdentities)}, id.Key()...)
}

// listKey returns the key of the list of a user's identities.
func listKey(user message.UserID) []byte { return append([]byte{byte(spaceLists)}, user...) }

// topicKey returns the key of a topic. It begins the keys of the topics below it, in which byte 01 follows.
func topicKey(t message.Topic) []byte { return append([]byte{byte(spaceTopics)}, t...) }

// keyHash is the hash of a sender and an idempotency key.
type keyHash [sha256.Size]byte

func hashKey(from message.UserID, key string) keyHash {
	h := sha256.New()
	h.Write([]byte(from))
	h.Write([]byte{terminator})
	h.Write([]byte(key))
	return keyHash(h.Sum(nil))
}

// key returns the key in the keys space.
func (h keyHash) key() []byte { return append([]byte{byte(spaceKeys)}, h[:]...) }

// timePrefix returns the prefix of the keys with a time in the expiries or leases space. The sign bit is flipped, so that times
// before 1970, which only tests use, are in order, too.
func timePrefix(s space, t time.Time) []byte {
	flipped := uint64(t.UnixMilli()) ^ (1 << 63)
	return binary.BigEndian.AppendUint64([]byte{byte(s)}, flipped)
}

// leaseKey returns the key of a user's rehydration in the leases space.
func leaseKey(until time.Time, user message.UserID) []byte {
	return append(timePrefix(spaceLeases, until), user...)
}

// leaseUser returns the user at the end of a key of the leases space.
func leaseUser(key []byte) message.UserID { return message.UserID(key[1+8:]) }

// keyHashOf returns the hash at the end of a key of the expiries space.
func keyHashOf(key []byte) keyHash { return keyHash(key[len(key)-sha256.Size:]) }

// after returns the least key above all keys with a prefix. It does not share memory with prefix.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < math.MaxUint8 {
			end[i]++
			return end[:i+1]
		}
	}
	return nil
}
