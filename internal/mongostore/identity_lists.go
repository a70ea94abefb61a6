package mongostore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fanmail/fanmail/pkg/identity"
	"github.com/fanmail/fanmail/pkg/message"
)

// identityList is the stored form of an identity.List.
type identityList struct {
	User     string         `bson:"_id"`
	Version  int32          `bson:"v"`
	Revision bson.ObjectID  `bson:"revision"`
	Items    []identityItem `bson:"items"`
}

type identityItem struct {
	ID     string        `bson:"id"` // identity.Identity.Key
	Number bson.ObjectID `bson:"number"`
}

func (l identityList) list() (identity.List, error) {
	list := identity.List{User: message.UserID(l.User), Revision: identity.Number(l.Revision)}
	for _, item := range l.Items {
		kind, value, ok := strings.Cut(item.ID, ":")
		if !ok {
			return list, corrupt(listsName, errors.New("an item has no kind"))
		}
		list.Items = append(list.Items, identity.Item{
			Identity: identity.Identity{Kind: identity.Kind(kind), Value: value}, Number: identity.Number(item.Number),
		})
	}
	return list, nil
}

// Lists implements identity.Store.
func (s *Identities) Lists(ctx context.Context, users []message.UserID) ([]identity.LookedList, error) {
	there, err := byID[identityList](ctx, s.lists, "look up lists of identities", users)
	if err != nil {
		return nil, err
	}
	looked := make([]identity.LookedList, len(users))
	for i, user := range users {
		looked[i].List.User = user
		found, ok := there[user]
		if !ok {
			continue
		}
		list, err := identity.List{User: user}, found.err
		if err == nil {
			list, err = found.record.list()
		}
		if looked[i].List = list; err != nil {
			looked[i] = identity.LookedList{List: identity.List{User: user}, Err: fmt.Errorf("mongostore: identities of %s: %w", user, err)}
		}
	}
	return looked, nil
}

// ReplaceLists implements identity.Store. New lists are inserted in bulk, because an import makes thousands.
func (s *Identities) ReplaceLists(ctx context.Context, changes []identity.Change) ([]error, error) {
	results := make([]error, len(changes))
	documents := make([]identityList, len(changes))
	var fresh, others []int
	for i, change := range changes {
		documents[i] = identityList{User: string(change.From.User), Version: version, Revision: bson.NewObjectID()}
		for _, item := range change.Items {
			documents[i].Items = append(documents[i].Items, identityItem{ID: item.Identity.Key(), Number: bson.ObjectID(item.Number)})
		}
		if change.From.Revision == (identity.Number{}) && len(change.Items) > 0 {
			fresh = append(fresh, i)
		} else {
			others = append(others, i)
		}
	}
	inserted, err := s.lists.insertMissing(ctx, "insert lists of identities", len(fresh), func(k int) any { return documents[fresh[k]] })
	if err != nil {
		return nil, err
	}
	var refused []int
	for k, i := range fresh {
		if !inserted[k] {
			refused = append(refused, i)
		}
	}
	err = s.lists.db.each(ctx, len(others), func(ctx context.Context, k int) (err error) {
		i := others[k]
		results[i], err = s.replaceList(ctx, changes[i].From, documents[i])
		return err
	})
	if err != nil || len(refused) == 0 {
		return results, err
	}
	return results, s.refuseLists(ctx, documents, refused, results)
}

// refuseLists finds out why lists could not be inserted: there is one with another revision, or it was inserted and the reply was lost.
func (s *Identities) refuseLists(ctx context.Context, documents []identityList, refused []int, results []error) error {
	users := make([]message.UserID, len(refused))
	for k, i := range refused {
		users[k] = message.UserID(documents[i].User)
	}
	found, err := s.Lists(ctx, users)
	for k, f := range found {
		i := refused[k]
		if results[i] = f.Err; f.Err == nil && f.List.Revision != identity.Number(documents[i].Revision) {
			results[i] = identity.ErrChanged
		}
	}
	return err
}

// replaceList replaces or removes a list that has the revision of from. If the reply of an attempt was lost, the list has the revision of to, or
// is gone.
func (s *Identities) replaceList(ctx context.Context, from identity.List, to identityList) (refused, err error) {
	same := bson.D{{Key: fieldID, Value: to.User}, {Key: fieldRevision, Value: bson.ObjectID(from.Revision)}}
	err = s.lists.call(ctx, "replace a list of identities", func(ctx context.Context) error {
		var changed int64
		if len(to.Items) == 0 {
			result, err := s.lists.DeleteOne(ctx, same)
			if err != nil {
				return err
			}
			changed = result.DeletedCount
		} else {
			result, err := s.lists.ReplaceOne(ctx, same, to)
			if err != nil {
				return err
			}
			changed = result.MatchedCount
		}
		if changed > 0 {
			return nil
		}
		looked, err := s.Lists(ctx, []message.UserID{from.User})
		if err != nil {
			return err
		}
		there := looked[0]
		switch {
		case there.Err != nil:
			refused = there.Err
		case there.List.Revision == identity.Number(to.Revision), len(to.Items) == 0 && there.List.Revision == (identity.Number{}):
		default:
			refused = identity.ErrChanged
		}
		return nil
	})
	return refused, err
}
