package pebblestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/fanmail/fanmail/internal/popular"
	"github.com/fanmail/fanmail/pkg/message"
)

// Popular is the store of the record of the users with the most followers: one value of at most 2 MB.
type Popular struct {
	db *DB
	mu sync.Mutex // held while the record is replaced
}

var _ popular.Store = (*Popular)(nil)

var popularKey = []byte{byte(spacePopular)}

// popularRecord has the users and their numbers of followers side by side.
type popularRecord struct {
	Revision  int64            `cbor:"1,keyasint"`
	Filled    bool             `cbor:"2,keyasint,omitempty"`
	Filling   int64            `cbor:"3,keyasint,omitempty"` // in milliseconds
	Users     []message.UserID `cbor:"4,keyasint"`
	Followers []int64          `cbor:"5,keyasint"`
}

func popularRecordOf(r popular.Record, revision int64) popularRecord {
	encoded := popularRecord{
		Revision: revision, Filled: r.Filled,
		Users: make([]message.UserID, len(r.Users)), Followers: make([]int64, len(r.Users)),
	}
	if !r.Filling.IsZero() {
		encoded.Filling = r.Filling.UnixMilli()
	}
	for i, u := range r.Users {
		encoded.Users[i], encoded.Followers[i] = u.ID, u.Followers
	}
	return encoded
}

func (r popularRecord) record() (popular.Record, error) {
	if len(r.Users) != len(r.Followers) {
		return popular.Record{}, corrupt(spacePopular)
	}
	record := popular.Record{Revision: r.Revision, Filled: r.Filled}
	if r.Filling != 0 {
		record.Filling = fromMillis(r.Filling)
	}
	for i, user := range r.Users {
		record.Users = append(record.Users, popular.User{ID: user, Followers: r.Followers[i]})
	}
	return record, nil
}

// Load implements popular.Store.
func (s *Popular) Load(ctx context.Context) (_ popular.Record, err error) {
	call, err := s.db.begin(ctx, "popular.load")
	if err != nil {
		return popular.Record{}, err
	}
	defer call.end(ctx, &err)
	return s.read()
}

func (s *Popular) read() (r popular.Record, err error) {
	_, err = s.db.get(popularKey, func(value []byte) (err error) {
		var found popularRecord
		if err = decodeValue(spacePopular, value, &found); err == nil {
			r, err = found.record()
		}
		return err
	})
	if err != nil {
		return popular.Record{}, fmt.Errorf("read the largest users: %w", err)
	}
	return r, nil
}

// Replace implements popular.Store. It does not wait for a sync.
func (s *Popular) Replace(ctx context.Context, from, to popular.Record) error {
	stored := func() (int64, error) {
		found, err := s.read()
		return found.Revision, err
	}
	if err := s.db.replaceRevised(ctx, "popular.replace", &s.mu, popularKey, from.Revision, stored, encodeValue(popularRecordOf(to, from.Revision+1)), popular.ErrChanged); err != nil {
		return fmt.Errorf("record the largest users: %w", err)
	}
	return nil
}

const (
	// sampleKeys is how many keys one part of a sample looks at.
	sampleKeys = 10_000
	// partitionLen is the length of a partition in a key.
	partitionLen = 2
	// samplePartition is the partition whose followers are the sample. Its users are random ones.
	samplePartition = 0
)

// Sample implements popular.Store. It counts the followers in one partition, and skips the others. The parts are ranges of keys.
func (s *Popular) Sample(ctx context.Context, part string) (found []popular.User, next string, err error) {
	call, err := s.db.begin(ctx, "popular.sample")
	if err != nil {
		return nil, "", err
	}
	defer call.end(ctx, &err)
	it, err := s.db.iterate([]byte{byte(spaceFollowers)})
	if err != nil {
		return nil, "", err
	}
	defer closeIter(it, &err)
	more := it.SeekGE(append([]byte{byte(spaceFollowers)}, part...))
	for keys := 0; more; keys++ {
		key := it.Key()[1:]
		if keys == sampleKeys {
			return found, string(key), nil
		}
		end := bytes.IndexByte(key, terminator)
		if end < 0 || len(key) < end+1+partitionLen {
			return nil, "", corrupt(spaceFollowers)
		}
		followee := message.Source(key[:end])
		if followee.IsTopic() {
			more = it.SeekGE(append([]byte{byte(spaceFollowers)}, message.FirstAuthor...))
			continue
		}
		if binary.BigEndian.Uint16(key[end+1:]) != samplePartition {
			more = it.SeekGE(append(append([]byte{byte(spaceFollowers)}, followee...), terminator+1))
			continue
		}
		if n := len(found); n == 0 || found[n-1].ID != followee.Author() {
			found = append(found, popular.User{ID: followee.Author()})
		}
		found[len(found)-1].Followers += int64(s.db.partitions)
		more = it.Next()
	}
	return found, "", it.Error()
}
