package mongostore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fanmail/fanmail/internal/settings"
	"github.com/fanmail/fanmail/internal/tally"
	"github.com/fanmail/fanmail/pkg/attribute"
)

// processPrefix begins the ids of processes. The byte after its last one ends them.
const processPrefix, afterProcesses = "process:", "process;"

// totalsID is the id of the record of what processes have done.
const totalsID = "totals"

// Settings is the store of the recorded settings and of the processes. The record is the document of the format, and each process
// has a document beside it.
type Settings struct{ c collection }

var _ settings.Store = (*Settings)(nil)

type settingRecord struct {
	Key   string        `bson:"key"`
	Value string        `bson:"value"`
	Since bson.DateTime `bson:"since"`
	// Until is absent if it is zero.
	Until *bson.DateTime `bson:"until,omitempty"`
}

func settingRecords(r settings.Record) []settingRecord {
	var records []settingRecord
	for _, key := range slices.Sorted(maps.Keys(r.Settings)) {
		s := r.Settings[key]
		r := settingRecord{Key: key, Value: s.Value, Since: date(s.Since)}
		if !s.Until.IsZero() {
			r.Until = new(date(s.Until))
		}
		records = append(records, r)
	}
	return records
}

type declarationRecord struct {
	Name   string         `bson:"name"`
	Type   attribute.Type `bson:"type"`
	Number int32          `bson:"number"`
}

func declarationRecords(r settings.Record) []declarationRecord {
	records := make([]declarationRecord, len(r.Declared))
	for i, d := range r.Declared {
		records[i] = declarationRecord{Name: d.Name, Type: d.Type, Number: int32(d.Number)} //nolint:gosec // it counts declarations
	}
	return records
}

type processRecord struct {
	ID       string        `bson:"_id"`
	Role     string        `bson:"role"`
	Host     string        `bson:"host"`
	Version  string        `bson:"version"`
	Address  string        `bson:"address"`
	State    string        `bson:"state"`
	Started  bson.DateTime `bson:"started"`
	Timeout  int64         `bson:"timeout"` // nanoseconds
	Seen     bson.DateTime `bson:"seen"`
	Counters []int64       `bson:"counters"` // tally.Counters.Numbers
}

type totalsRecord struct {
	ID       string        `bson:"_id"`
	Version  int32         `bson:"v"`
	Revision int64         `bson:"revision"`
	Base     []int64       `bson:"base"`
	Taken    []takenRecord `bson:"taken"`
}

type takenRecord struct {
	Name     string  `bson:"name"`
	Counters []int64 `bson:"counters"`
}

// Load implements settings.Store.
func (s *Settings) Load(ctx context.Context) (settings.Record, error) {
	var found formatRecord
	err := s.c.call(ctx, "read the settings", func(ctx context.Context) error {
		return s.c.FindOne(ctx, bson.D{{Key: fieldID, Value: formatID}}).Decode(&found)
	})
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return settings.Record{}, fmt.Errorf("the database %s %w", s.c.Database().Name(), ErrNotInitialized)
	case err != nil:
		return settings.Record{}, err
	}
	if err := found.check(); err != nil {
		return settings.Record{}, err
	}
	record := settings.Record{Revision: found.Revision, Settings: make(map[string]settings.Setting)}
	for _, r := range found.Settings {
		s := settings.Setting{Value: r.Value, Since: timeOf(r.Since)}
		if r.Until != nil {
			s.Until = timeOf(*r.Until)
		}
		record.Settings[r.Key] = s
	}
	record.LastDeclared = int(found.LastDeclared)
	for _, d := range found.Declared {
		record.Declared = append(record.Declared, attribute.Declaration{Name: d.Name, Type: d.Type, Number: int(d.Number)})
	}
	return record, nil
}

// Replace implements settings.Store. If the server carries out the update and the answer is lost, the repeated update finds another
// revision, and Replace returns ErrChanged: the caller reads its own change then.
func (s *Settings) Replace(ctx context.Context, from, to settings.Record) error {
	filter := bson.D{{Key: fieldID, Value: formatID}, {Key: fieldVersion, Value: version}}
	if from.Revision == 0 {
		filter = append(filter, bson.E{Key: fieldRevision, Value: bson.D{{Key: "$exists", Value: false}}})
	} else {
		filter = append(filter, bson.E{Key: fieldRevision, Value: from.Revision})
	}
	set := bson.D{
		{Key: fieldRevision, Value: from.Revision + 1},
		{Key: fieldRecorded, Value: settingRecords(to)},
	}
	if to.LastDeclared > 0 {
		set = append(set, bson.E{Key: fieldDeclared, Value: declarationRecords(to)}, bson.E{Key: fieldLastDeclared, Value: int32(to.LastDeclared)}) //nolint:gosec // it counts declarations
	}
	update := bson.D{{Key: "$set", Value: set}}
	return s.c.call(ctx, "record the settings", func(ctx context.Context) error {
		result, err := s.c.UpdateOne(ctx, filter, update)
		if err == nil && result.MatchedCount == 0 {
			return settings.ErrChanged
		}
		return err
	})
}

// Report implements settings.Store. The array of the counters that has not fallen is the greater one by its first number that differs.
func (s *Settings) Report(ctx context.Context, p settings.Process) (time.Time, error) {
	update := bson.D{
		{Key: "$set", Value: bson.D{
			{Key: "role", Value: p.Role},
			{Key: "host", Value: p.Host},
			{Key: "version", Value: p.Version},
			{Key: "address", Value: p.Address},
			{Key: "state", Value: p.State},
			{Key: "started", Value: date(p.Started)},
			{Key: "timeout", Value: int64(p.Timeout)},
		}},
		{Key: "$max", Value: bson.D{{Key: fieldCounters, Value: p.Counters.Numbers()}}},
		{Key: "$currentDate", Value: bson.D{{Key: fieldSeen, Value: true}}},
	}
	var reported processRecord
	err := s.c.call(ctx, "record the process", func(ctx context.Context) error {
		opts := options.FindOneAndUpdate().SetUpsert(p.Counters == tally.Counters{}).SetReturnDocument(options.After)
		err := s.c.FindOneAndUpdate(ctx, bson.D{{Key: fieldID, Value: processPrefix + p.Name}}, update, opts).Decode(&reported)
		if errors.Is(err, mongo.ErrNoDocuments) {
			return settings.ErrForgotten
		}
		return err
	})
	return timeOf(reported.Seen), err
}

// processes returns the filter of all processes.
func processes() bson.D {
	return bson.D{{Key: fieldID, Value: bson.D{{Key: "$gte", Value: processPrefix}, {Key: "$lt", Value: afterProcesses}}}}
}

// Processes implements settings.Store.
func (s *Settings) Processes(ctx context.Context) ([]settings.Process, error) {
	found, err := allOf[processRecord](ctx, s.c, "read the processes", processes(), options.Find().SetSort(ascending(fieldID)))
	if err != nil {
		return nil, err
	}
	all := make([]settings.Process, len(found))
	for i, r := range found {
		all[i] = settings.Process{
			Name: strings.TrimPrefix(r.ID, processPrefix), Role: r.Role, Host: r.Host, Version: r.Version, Address: r.Address, State: r.State,
			Started: timeOf(r.Started), Timeout: time.Duration(r.Timeout), Counters: tally.Of(r.Counters), Seen: timeOf(r.Seen),
		}
	}
	return all, nil
}

// Forget implements settings.Store.
func (s *Settings) Forget(ctx context.Context, p settings.Process) error {
	return s.c.call(ctx, "forget a process", func(ctx context.Context) error {
		_, err := s.c.DeleteOne(ctx, bson.D{{Key: fieldID, Value: processPrefix + p.Name}, {Key: fieldSeen, Value: date(p.Seen)}})
		return err
	})
}

// Totals implements settings.Store.
func (s *Settings) Totals(ctx context.Context) (settings.Totals, error) {
	var found totalsRecord
	err := s.c.call(ctx, "read the totals", func(ctx context.Context) (err error) {
		found, err = one[totalsRecord](s.c, s.c.FindOne(ctx, bson.D{{Key: fieldID, Value: totalsID}}))
		return err
	})
	if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
		return settings.Totals{}, err
	}
	totals := settings.Totals{Revision: found.Revision, Base: tally.Of(found.Base), Taken: make(map[string]tally.Counters)}
	for _, t := range found.Taken {
		totals.Taken[t.Name] = tally.Of(t.Counters)
	}
	return totals, nil
}

// ReplaceTotals implements settings.Store. Before the first change there is no document.
func (s *Settings) ReplaceTotals(ctx context.Context, from, to settings.Totals) error {
	document := totalsRecord{ID: totalsID, Version: version, Revision: from.Revision + 1, Base: to.Base.Numbers(), Taken: []takenRecord{}}
	for _, name := range slices.Sorted(maps.Keys(to.Taken)) {
		document.Taken = append(document.Taken, takenRecord{Name: name, Counters: to.Taken[name].Numbers()})
	}
	return s.c.call(ctx, "record the totals", func(ctx context.Context) error {
		if from.Revision == 0 {
			_, err := s.c.InsertOne(ctx, document)
			if duplicate(err) {
				return settings.ErrChanged
			}
			return err
		}
		result, err := s.c.ReplaceOne(ctx, bson.D{{Key: fieldID, Value: totalsID}, {Key: fieldRevision, Value: from.Revision}}, document)
		if err == nil && result.MatchedCount == 0 {
			return settings.ErrChanged
		}
		return err
	})
}
