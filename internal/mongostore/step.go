package mongostore

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/userstate"
)

// Step implements userstate.Store. Lazy steps are as durable as all others, because there is no local file to sync. Steps that
// create records go in bulk, because an import creates thousands. Steps that change a record go one by one, because each needs
// its own result.
func (s *Users) Step(ctx context.Context, steps []userstate.Step) ([]userstate.Stepped, error) {
	stepped := make([]userstate.Stepped, len(steps))
	token := bson.NewObjectID()
	var create, change []int
	for i, step := range steps {
		if step.From.Empty() && !step.To.Empty() {
			create = append(create, i)
		} else {
			change = append(change, i)
		}
	}
	if len(create) > 0 {
		if err := s.create(ctx, steps, stepped, create, token); err != nil {
			return nil, err
		}
	}
	return stepped, s.c.db.each(ctx, len(change), func(ctx context.Context, k int) (err error) {
		i := change[k]
		stepped[i], err = s.change(ctx, steps[i], token)
		return err
	})
}

// change is a compare-and-swap, or a compare-and-remove. If the server refuses it, change reads the state. If that state equals the expected
// one after all, change tries again.
func (s *Users) change(ctx context.Context, step userstate.Step, token bson.ObjectID) (stepped userstate.Stepped, err error) {
	from, to := s.record(step.From), s.record(step.To)
	to.Step = token
	opts := options.FindOneAndUpdate().SetReturnDocument(options.After)
	late := s.c.db.latest(ctx)
	replace := func(ctx context.Context) *mongo.SingleResult {
		return s.c.FindOneAndUpdate(ctx, from.same(), to.replace(late), opts)
	}
	if step.To.Empty() {
		replace = func(ctx context.Context) *mongo.SingleResult { return s.c.FindOneAndDelete(ctx, from.sameBefore(late)) }
	}
	err = s.c.call(ctx, "step", func(ctx context.Context) error {
		r, err := one[userRecord](s.c, replace(ctx))
		if err == nil && step.To.Empty() {
			stepped = userstate.Stepped{State: userstate.State{User: step.From.User}, Applied: true}
			return nil
		}
		there := &r
		if errors.Is(err, mongo.ErrNoDocuments) {
			there, err = s.read(ctx, step.From.User)
		}
		if err != nil {
			return err
		}
		if there == nil {
			stepped = userstate.Stepped{State: userstate.State{User: step.From.User}, Applied: step.From.Empty()}
			return nil
		}
		stepped.Applied = there.Step == token // by this attempt, or by an earlier one whose reply was lost
		stepped.State, err = there.state()
		if err == nil && !stepped.Applied && stepped.State.Same(step.From) {
			return errChanged
		}
		return err
	})
	return stepped, err
}

func (s *Users) record(st userstate.State) userRecord {
	return recordOfState(st, s.c.db.opts.Partitions)
}

// parts returns the fields that Step compares and replaces. An absent value is nil.
func (r *userRecord) parts() bson.D {
	var parts bson.D
	add := func(field string, there bool, value any) {
		if !there {
			value = nil
		}
		parts = append(parts, bson.E{Key: field, Value: value})
	}
	add(fieldLastViewed, r.LastViewed != nil, r.LastViewed)
	add(fieldHorizon, r.Horizon != nil, r.Horizon)
	add(fieldReadMark, r.ReadMark != nil, r.ReadMark)
	add(fieldMark, r.Mark != nil, r.Mark)
	add(fieldSweep, r.Sweep != nil, r.Sweep)
	add(fieldLease, r.Lease != nil, r.Lease)
	add(fieldGaps, len(r.Gaps) > 0, r.Gaps)
	add(fieldRecovered, r.Recovered != 0, r.Recovered)
	add(fieldFlagged, r.Flagged, r.Flagged)
	add(fieldSeen, r.Seen != 0, r.Seen)
	add(fieldMarks, r.Marks != 0, r.Marks)
	add(fieldGapsMade, r.GapsMade != 0, r.GapsMade)
	add(fieldPurged, r.Purged != nil, r.Purged)
	add(fieldKeep, r.Keep != nil, r.Keep)
	return parts
}

// same returns a filter that finds a record with the same parts. null matches an absent field.
func (r *userRecord) same() bson.D { return append(bson.D{{Key: fieldID, Value: r.ID}}, r.parts()...) }

// sameBefore is same, in a command that removes the record. The command fails if it arrives late.
func (r *userRecord) sameBefore(late bson.DateTime) bson.D {
	return append(r.same(), bson.E{Key: "$expr", Value: failAfter(late, fieldID, true)})
}

// replace returns an update that replaces the parts of a record by those of r. It fails if it arrives late.
func (r *userRecord) replace(late bson.DateTime) mongo.Pipeline {
	set := bson.D{{Key: fieldStep, Value: failAfter(late, fieldID, r.Step)}}
	var unset []string
	parts := append(r.parts(), bson.E{Key: fieldDue})
	if r.Due != nil {
		parts[len(parts)-1].Value = *r.Due
	}
	for _, part := range parts {
		if part.Value == nil {
			unset = append(unset, part.Key)
			continue
		}
		set = append(set, bson.E{Key: part.Key, Value: operator("$literal", part.Value)})
	}
	update := mongo.Pipeline{operator("$set", set)}
	if len(unset) > 0 {
		update = append(update, operator("$unset", unset))
	}
	return update
}

// create creates the records of new users in bulk. The server's reply says which records this call created. If a reply was
// lost, the token says it.
func (s *Users) create(ctx context.Context, steps []userstate.Step, stepped []userstate.Stepped, indexes []int, token bson.ObjectID) error {
	late := s.c.db.latest(ctx)
	writes := make([]write, len(indexes))
	for k, i := range indexes {
		r := s.record(steps[i].To)
		r.ID, r.Step = "", token
		user := steps[i].To.User
		writes[k] = write{
			key: string(user), filter: append(userFilter(user), notThere), upsert: true,
			update: mongo.Pipeline{operator("$replaceWith", failAfter(late, fieldID, operator("$literal", r)))},
		}
	}
	written, err := s.c.bulk(ctx, "create users", writes)
	if err != nil {
		return err
	}
	var refused []message.UserID
	for k, i := range indexes {
		if !written[k].inserted {
			refused = append(refused, steps[i].To.User)
			continue
		}
		r := s.record(steps[i].To) // a copy, because the caller may change its state
		if stepped[i].State, err = r.state(); err != nil {
			return err
		}
		stepped[i].Applied = true
	}
	there, err := byID[userRecord](ctx, s.c, "look up users", refused)
	if err != nil {
		return err
	}
	for k, i := range indexes {
		if user := steps[i].To.User; !written[k].inserted {
			r, ok := there[user]
			if !ok {
				return fmt.Errorf("mongostore: state of %s was found, and is not there: %w", user, ErrCorrupt)
			}
			found := lookedAt(r)
			if found.Err != nil {
				return found.Err
			}
			stepped[i] = userstate.Stepped{State: found.State, Applied: r.record.Step == token}
		}
	}
	return nil
}
