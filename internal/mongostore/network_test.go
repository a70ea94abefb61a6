//go:build mongodb

package mongostore_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fanmail/fanmail/test/testenv"
)

// badReplies returns a network to a server. It loses one of so many replies to commands that write, or lets the reply say that no
// majority has acknowledged the write, as a replica set does.
func badReplies(t *testing.T, uri string, every int, doubts bool) *testenv.Proxy {
	t.Helper()
	network := testenv.NewProxy(t, uri)
	fault := testenv.Fault{Lose: every, OnlyWrites: true}
	if doubts {
		fault.Change = doubted
	}
	network.Set(t, fault)
	return network
}

// doubted returns a reply that also says that no majority has acknowledged what was written. A reply is a header of 16 bytes, 4
// bytes of flags, the kind of what follows, and a document.
func doubted(reply []byte) []byte {
	const before = 16 + 4 + 1
	var said bson.D
	if err := bson.Unmarshal(reply[before:], &said); err != nil {
		panic(err) // a server sends documents
	}
	doubt := bson.D{{Key: "code", Value: 64}, {Key: "codeName", Value: "WriteConcernFailed"}, {Key: "errmsg", Value: "waiting for replication timed out"}}
	document, err := bson.Marshal(append(said, bson.E{Key: "writeConcernError", Value: doubt}))
	if err != nil {
		panic(err) // it was one before
	}
	reply = append(slices.Clone(reply[:before]), document...)
	binary.LittleEndian.PutUint32(reply, uint32(len(reply)))
	return reply
}
