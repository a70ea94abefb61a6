package mongostore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fanmail/fanmail/internal/popular"
	"github.com/fanmail/fanmail/pkg/message"
)

// popularID is the id of the record of the users with the most followers.
const popularID = "popular"

// Popular is the store of the record of the users with the most followers: one document of at most 2 MB beside that of the format.
type Popular struct {
	c collection
	// followers is the collection of edges.
	followers collection
}

var _ popular.Store = (*Popular)(nil)

type popularRecord struct {
	ID       string        `bson:"_id"`
	Version  int32         `bson:"v"`
	Revision int64         `bson:"revision"`
	Filled   bool          `bson:"filled,omitempty"`
	Filling  bson.DateTime `bson:"filling,omitempty"`
	Users    []popularUser `bson:"users"`
}

type popularUser struct {
	ID        string `bson:"id"`
	Followers int64  `bson:"followers"`
}

// Load implements popular.Store.
func (s *Popular) Load(ctx context.Context) (popular.Record, error) {
	var found popularRecord
	err := s.c.call(ctx, "read the largest users", func(ctx context.Context) (err error) {
		found, err = one[popularRecord](s.c, s.c.FindOne(ctx, bson.D{{Key: fieldID, Value: popularID}}))
		return err
	})
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return popular.Record{}, nil
	case err != nil:
		return popular.Record{}, err
	}
	record := popular.Record{Revision: found.Revision, Filled: found.Filled}
	if found.Filling != 0 {
		record.Filling = timeOf(found.Filling)
	}
	for _, u := range found.Users {
		record.Users = append(record.Users, popular.User{ID: message.UserID(u.ID), Followers: u.Followers})
	}
	return record, nil
}

// Replace implements popular.Store.
func (s *Popular) Replace(ctx context.Context, from, to popular.Record) error {
	document := popularRecord{ID: popularID, Version: version, Revision: from.Revision + 1, Filled: to.Filled, Users: []popularUser{}}
	if !to.Filling.IsZero() {
		document.Filling = date(to.Filling.Truncate(time.Millisecond))
	}
	for _, u := range to.Users {
		document.Users = append(document.Users, popularUser{ID: string(u.ID), Followers: u.Followers})
	}
	return s.c.replaceRevised(ctx, "record the largest users", popularID, from.Revision, document, popular.ErrChanged)
}

const (
	// samplePart is how many documents one part of a sample reads, and sampleParts how many parts there are at most. A user with a
	// hundred-thousandth of all followers is found once.
	samplePart  = 1_000
	sampleParts = 100
)

// Sample implements popular.Store. A part is a number of random edges, which the server chooses. The parts are numbered.
func (s *Popular) Sample(ctx context.Context, part string) (found []popular.User, next string, err error) {
	number := 0
	if part != "" {
		if number, err = strconv.Atoi(part); err != nil {
			return nil, "", fmt.Errorf("part %q of a sample: %w", part, err)
		}
	}
	var total int64
	hits := make(map[message.UserID]int64)
	pipeline := mongo.Pipeline{
		operator("$sample", bson.D{{Key: "size", Value: samplePart}}),
		operator("$project", bson.D{{Key: fieldFollowee, Value: 1}}),
	}
	err = s.followers.call(ctx, "sample the followers", func(ctx context.Context) (err error) {
		clear(hits)
		if total, err = s.followers.EstimatedDocumentCount(ctx); err != nil {
			return err
		}
		cursor, err := s.followers.Aggregate(ctx, pipeline)
		if err != nil {
			return err
		}
		defer closeCursor(ctx, cursor)
		for cursor.Next(ctx) {
			followee, ok := cursor.Current.Lookup(fieldFollowee).StringValueOK()
			if !ok {
				return corrupt(followersName, errors.New("an edge has no followee"))
			}
			if source := message.Source(followee); !source.IsTopic() {
				hits[source.Author()]++
			}
		}
		return cursor.Err()
	})
	if err != nil {
		return nil, "", err
	}
	parts := min((total+samplePart-1)/samplePart, sampleParts)
	each := max(1, total/(samplePart*sampleParts))
	for user, n := range hits {
		found = append(found, popular.User{ID: user, Followers: n * each})
	}
	if number++; int64(number) < parts {
		next = strconv.Itoa(number)
	}
	return found, next, nil
}
