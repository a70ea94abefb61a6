package mongostore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/message"
)

// Progress is the store of fan-outs: one document for each message, with one field for each partition.
type Progress struct{ c collection }

var _ progress.Store = (*Progress)(nil)

// fanoutRecord is the stored form of a fan-out.
type fanoutRecord struct {
	ID      bson.Binary           `bson:"_id"`
	Version int32                 `bson:"v"`
	Lane    string                `bson:"lane"`
	Moved   bson.DateTime         `bson:"moved"`
	Scans   map[string]scanRecord `bson:"partitions"`
}

// scanRecord is the stored form of a scan. It stores every field, so that a comparison has a value for each.
type scanRecord struct {
	Joined    bool           `bson:"joined"`
	Start     message.UserID `bson:"start"`
	At        message.UserID `bson:"at"`
	Delivered int64          `bson:"delivered"`
	Skipped   int64          `bson:"skipped"`
	Done      bool           `bson:"done"`
	Dead      bool           `bson:"dead"`
	// GivenUp is left out if it is false. Only a dead scan has it.
	GivenUp bool `bson:"given_up,omitempty"`
	// Arc is there while there is one.
	Arc *arcRecord `bson:"arc,omitempty"`
	// Step is the token of the last step. A caller that repeats a step after a lost reply recognizes its own step by it.
	Step bson.ObjectID `bson:"step,omitempty"`
}

// arcRecord is the stored form of an arc.
type arcRecord struct {
	From      message.UserID `bson:"from"`
	To        message.UserID `bson:"to"`
	Delivered int64          `bson:"delivered"`
	Skipped   int64          `bson:"skipped"`
}

func recordOfScan(s progress.Scan, step bson.ObjectID) scanRecord {
	r := scanRecord{
		Joined: s.Joined, Start: s.Start, At: s.At, Delivered: s.Delivered, Skipped: s.Skipped, Done: s.Done, Dead: s.Dead,
		GivenUp: s.GivenUp, Step: step,
	}
	if a := s.Arc; a.Noted {
		r.Arc = &arcRecord{From: a.From, To: a.To, Delivered: a.Since.Delivered, Skipped: a.Since.Skipped}
	}
	return r
}

func (r scanRecord) scan() progress.Scan {
	s := progress.Scan{
		Joined: r.Joined, Start: r.Start, At: r.At, Delivered: r.Delivered, Skipped: r.Skipped, Done: r.Done, Dead: r.Dead, GivenUp: r.GivenUp,
	}
	if a := r.Arc; a != nil {
		s.Arc = progress.Arc{Noted: true, From: a.From, To: a.To, Since: progress.Counts{Delivered: a.Delivered, Skipped: a.Skipped}}
	}
	return s
}

func (r fanoutRecord) fanout() (progress.Fanout, error) {
	id, err := idOf(fanoutsName, r.ID)
	if err != nil {
		return progress.Fanout{}, err
	}
	f := progress.Fanout{ID: id, Lane: r.Lane, Moved: timeOf(r.Moved), Scans: make(map[int]progress.Scan, len(r.Scans))}
	for p, scan := range r.Scans {
		n, err := strconv.Atoi(p)
		if err != nil {
			return progress.Fanout{}, corrupt(fanoutsName, err)
		}
		f.Scans[n] = scan.scan()
	}
	return f, nil
}

func fanoutFilter(id message.ID) bson.D { return bson.D{{Key: fieldID, Value: uuid(id)}} }

// scanField returns the field of a partition's scan.
func scanField(partition int) string { return path(fieldScans, partition) }

// Plan implements progress.Store.
func (s *Progress) Plan(ctx context.Context, id message.ID, lane string, partitions []int, now time.Time) (f progress.Fanout, err error) {
	plan := fanoutRecord{ID: uuid(id), Version: version, Lane: lane, Moved: date(now), Scans: make(map[string]scanRecord, len(partitions))}
	for _, p := range partitions {
		plan.Scans[strconv.Itoa(p)] = scanRecord{}
	}
	err = s.c.call(ctx, "plan a fan-out", func(ctx context.Context) error {
		if _, err := s.c.InsertOne(ctx, plan); err == nil || !duplicate(err) {
			f, _ = plan.fanout()
			return err
		}
		r, err := one[fanoutRecord](s.c, s.c.FindOne(ctx, fanoutFilter(id)))
		switch {
		case errors.Is(err, mongo.ErrNoDocuments):
			return errChanged // the plan was removed meanwhile
		case err != nil:
			return err
		}
		f, err = r.fanout()
		return err
	})
	return f, err
}

// Get implements progress.Store.
func (s *Progress) Get(ctx context.Context, id message.ID) (f progress.Fanout, err error) {
	err = s.c.call(ctx, "get a fan-out", func(ctx context.Context) error {
		r, err := one[fanoutRecord](s.c, s.c.FindOne(ctx, fanoutFilter(id)))
		if err != nil {
			return err
		}
		f, err = r.fanout()
		return err
	})
	if errors.Is(err, mongo.ErrNoDocuments) {
		return progress.Fanout{}, fmt.Errorf("fan-out of %s: %w", id, progress.ErrNotFound)
	}
	return f, err
}

// GetMany implements progress.Store.
func (s *Progress) GetMany(ctx context.Context, ids []message.ID) ([]progress.Fanout, []bool, error) {
	fanouts, ok := make([]progress.Fanout, len(ids)), make([]bool, len(ids))
	err := s.byID(ctx, "get fan-outs", ids, options.Find(), func(i int, f progress.Fanout) { fanouts[i], ok[i] = f, true })
	if err != nil {
		return nil, nil, err
	}
	return fanouts, ok, nil
}

// Scans implements progress.Store.
func (s *Progress) Scans(ctx context.Context, partition int, ids []message.ID) ([]progress.Scan, []bool, error) {
	scans, ok := make([]progress.Scan, len(ids)), make([]bool, len(ids))
	opts := options.Find().SetProjection(fields(fieldID, scanField(partition)))
	err := s.byID(ctx, "read scans", ids, opts, func(i int, f progress.Fanout) { scans[i], ok[i] = f.Scans[partition] })
	if err != nil {
		return nil, nil, err
	}
	return scans, ok, nil
}

// byID reads the fan-outs of messages in one query. It calls use for each index of ids whose message is planned.
func (s *Progress) byID(
	ctx context.Context, doing string, ids []message.ID, opts *options.FindOptionsBuilder, use func(i int, f progress.Fanout),
) error {
	places := make(map[message.ID][]int, len(ids))
	for i, id := range ids {
		places[id] = append(places[id], i)
	}
	wanted := make([]bson.Binary, 0, len(places))
	for id := range places {
		wanted = append(wanted, uuid(id))
	}
	if len(wanted) == 0 {
		return nil
	}
	records, err := all[fanoutRecord](ctx, s.c, doing, bson.D{{Key: fieldID, Value: in(wanted)}}, opts)
	if err != nil {
		return err
	}
	for _, r := range records {
		f, err := r.fanout()
		if err != nil {
			return err
		}
		for _, i := range places[f.ID] {
			use(i, f)
		}
	}
	return nil
}

// Step implements progress.Store. Every step is an update of its own, because the reply to a bulk does not say which updates
// matched.
func (s *Progress) Step(ctx context.Context, steps []progress.Move, now time.Time) ([]progress.Moved, error) {
	stepped := make([]progress.Moved, len(steps))
	token := bson.NewObjectID()
	return stepped, s.c.db.each(ctx, len(steps), func(ctx context.Context, i int) (err error) {
		stepped[i], err = s.step(ctx, steps[i], token, now)
		return err
	})
}

func (s *Progress) step(ctx context.Context, step progress.Move, token bson.ObjectID, now time.Time) (stepped progress.Moved, err error) {
	field := scanField(step.Partition)
	from := fanoutFilter(step.ID)
	for _, same := range []struct {
		field string
		value any
	}{
		{"joined", step.From.Joined},
		{"start", step.From.Start},
		{"at", step.From.At},
		{"done", step.From.Done},
		{"dead", step.From.Dead},
	} {
		from = append(from, bson.E{Key: path(field, same.field), Value: same.value})
	}
	if step.From.Dead {
		var givenUp any = true
		if !step.From.GivenUp {
			givenUp = operator("$exists", false)
		}
		from = append(from, bson.E{Key: path(field, "given_up"), Value: givenUp})
	}
	to := operator("$set", bson.D{{Key: field, Value: recordOfScan(step.To, token)}, {Key: fieldMoved, Value: date(now)}})
	projection := fields(fieldID, field)
	err = s.c.call(ctx, "step", func(ctx context.Context) error {
		r, err := one[fanoutRecord](s.c, s.c.FindOneAndUpdate(ctx, from, to,
			options.FindOneAndUpdate().SetReturnDocument(options.After).SetProjection(projection)))
		if errors.Is(err, mongo.ErrNoDocuments) {
			r, err = one[fanoutRecord](s.c, s.c.FindOne(ctx, fanoutFilter(step.ID), options.FindOne().SetProjection(projection)))
		}
		if errors.Is(err, mongo.ErrNoDocuments) {
			stepped = progress.Moved{}
			return nil
		}
		if err != nil {
			return err
		}
		scan, planned := r.Scans[strconv.Itoa(step.Partition)]
		stepped = progress.Moved{Applied: planned && scan.Step == token, Scan: scan.scan()}
		if planned && !stepped.Applied && stepped.Scan.Same(step.From) {
			return errChanged
		}
		return nil
	})
	return stepped, err
}

// errChanged says that a document refused an update but now has the state that the update expected. The update is repeated.
var errChanged = errors.New("the document changed meanwhile")
