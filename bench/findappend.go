package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fanmail/fanmail/internal/bench"
	"github.com/fanmail/fanmail/pkg/attribute"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/message"
)

// The messages that are appended to many inboxes have ten attributes. Half of them have one of four values, and half another value in each message.
const pushedAttributes = 10

func pushedSet() []attribute.Declaration {
	all := make([]attribute.Declaration, pushedAttributes)
	for i := range all {
		all[i] = attribute.Declaration{Name: fmt.Sprintf("key-%d", i), Type: attribute.String, Number: i + 1}
		if i%2 == 1 {
			all[i].Type = attribute.Number
		}
	}
	return all
}

func pushedAttrs(random *rand.Rand) (json.RawMessage, error) {
	attrs := make(map[string]any)
	for _, d := range pushedSet() {
		attrs[d.Name] = fmt.Sprintf("value-%d", random.IntN(4))
		if d.Type == attribute.Number {
			attrs[d.Name] = random.IntN(1_000_000_000)
		}
	}
	return json.Marshal(attrs)
}

// lane is a way to append, measured in turns with others.
type lane struct {
	name   string
	append func(ctx context.Context, entries []bucket.Entry) error
	world  *world
	rates  []float64
}

// declaring measures appending while no, one and all attributes are declared.
func (e env) declaring(ctx context.Context, o FindOptions) (rows []Row, err error) {
	all := pushedSet()
	owners := bench.Users("user", 0, o.Inboxes)
	var lanes []*lane
	var first *world
	for _, n := range []int{0, 1, pushedAttributes} {
		w, err := e.open(ctx)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, w.Close(ctx)) }()
		if first == nil {
			first = w
		}
		if err := errors.Join(w.See(ctx, e.Now(), owners), w.declare(ctx, all[:n])); err != nil {
			return nil, err
		}
		l, err := w.declaredLane(ctx, n, owners, first.Entries(-w.Config.Inbox.BucketSize, w.Config.Inbox.BucketSize))
		if err != nil {
			return nil, err
		}
		lanes = append(lanes, l)
	}
	e.Tell(fmt.Sprintf("appending to %d inboxes in %d rounds", o.Inboxes, o.Rounds))
	if err := first.takeTurns(ctx, o, lanes); err != nil {
		return nil, err
	}
	for i, l := range lanes {
		slices.Sort(l.rates)
		rate := l.rates[(len(l.rates)-1)/2]
		figures := []Figure{figure("entries", rate, "/s")}
		if i > 0 {
			figures = append(figures, figure("of none", rate/rows[0].Figures[0].Value, ""))
		}
		sizes, err := l.world.inboxSizes(ctx, false)
		if err != nil {
			return nil, err
		}
		rows = append(rows, Row{Case: l.name, Figures: append(figures, sizes...)})
	}
	return rows, nil
}

// declaredLane returns the lane of a world in which a number of attributes are declared. It fills the first bucket of each inbox, which has no facets,
// with messages that are older than those of takeTurns.
func (w *world) declaredLane(ctx context.Context, declared int, owners []message.UserID, earlier []bucket.Entry) (*lane, error) {
	var into []*appending
	for some := range slices.Chunk(owners, w.Config.Fanout.BatchOwners) { // as fan-out does
		a := w.appending(some)
		if err := a.append(ctx, earlier); err != nil {
			return nil, err
		}
		into = append(into, a)
	}
	return &lane{
		name: fmt.Sprintf("appending, %d declared", declared), world: w,
		append: func(ctx context.Context, entries []bucket.Entry) error {
			for _, a := range into {
				if err := a.append(ctx, entries); err != nil {
					return err
				}
				if head := a.heads[0]; w.Env.OnMongoDB() && head.Decl != declared {
					return fmt.Errorf("bucket %d has the facets of %d declarations, want %d", head.Sequence, head.Decl, declared)
				}
			}
			return nil
		},
	}, nil
}

// takeTurns lets each lane append the same messages, one after the other. In each round another lane is the first.
func (w *world) takeTurns(ctx context.Context, o FindOptions, lanes []*lane) error {
	random := rand.New(rand.NewPCG(o.Seed, 1)) //nolint:gosec // it is no secret
	for round := range o.Rounds {
		entries := w.textEntries(round*o.Messages, o.Messages, random)
		for i := range entries {
			var err error
			if entries[i].Attrs, err = pushedAttrs(random); err != nil {
				return err
			}
		}
		for turn := range lanes {
			l := lanes[(round+turn)%len(lanes)]
			began := time.Now() //nolint:forbidigo // what is measured is time
			for i := range entries {
				if err := l.append(ctx, entries[i:i+1]); err != nil {
					return fmt.Errorf("%s: %w", l.name, err)
				}
			}
			l.rates = append(l.rates, float64(o.Inboxes*o.Messages)/time.Since(began).Seconds())
		}
	}
	return nil
}
