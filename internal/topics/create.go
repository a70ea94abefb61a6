package topics

import (
	"context"
	"errors"
	"fmt"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/pkg/topic"
)

// Create makes a topic exist, and reports whether it did not exist before. With parents set, it creates the topics above it, too. Otherwise it
// returns an *message.InvalidError for the field topic if the topic above does not exist. It is idempotent.
func (s *Service) Create(ctx context.Context, t message.Topic, parents bool) (created bool, err error) {
	if !parents {
		return s.create(ctx, t)
	}
	for range attempts {
		for above := range t.Path() {
			if created, err = s.create(ctx, above); err != nil {
				break
			}
		}
		if _, deleted := errors.AsType[*message.InvalidError](err); !deleted { // a topic above, by another call
			return created, err
		}
	}
	return false, contended(t)
}

// create is Create without parents.
func (s *Service) create(ctx context.Context, t message.Topic) (created bool, err error) {
	for range attempts {
		r, err := s.known(ctx, t)
		if err != nil || r.InForce {
			return false, err
		}
		inserted := topic.Record{Topic: t, Number: topic.NewNumber(), InForce: t.Parent() == ""}
		if !inserted.InForce {
			parent, err := s.known(ctx, t.Parent())
			if err != nil {
				return false, err
			}
			if !parent.InForce {
				return false, &message.InvalidError{Field: "topic", Reason: fmt.Sprintf("is %q, and there is no topic %q: create that first", string(t), string(t.Parent()))}
			}
			inserted.Parent = parent.Number
		}
		won, err := s.step(ctx, r, inserted)
		if err != nil {
			return false, err
		}
		if won && !inserted.InForce {
			err = s.finish(ctx, inserted)
		}
		if err == nil && won {
			r, err = s.known(ctx, t)
		}
		if err != nil || r.InForce {
			return err == nil, err
		}
	}
	return false, contended(t)
}

// finish puts a topic that was inserted in force if the topic above is still the one under which it was inserted, and removes it otherwise.
// Another call may have done so before.
func (s *Service) finish(ctx context.Context, inserted topic.Record) error {
	parent, err := s.unmarked(ctx, inserted.Topic.Parent(), inserted.Parent)
	if err != nil {
		return err
	}
	to := topic.Record{Topic: inserted.Topic}
	if parent.Number == inserted.Parent {
		to = inserted
		to.InForce = true
	}
	_, err = s.step(ctx, inserted, to)
	return err
}

// CreateAll makes topics exist, in their order: a topic may be below one that comes before it. It returns one error or nil for each: that of
// Create without parents, or ErrContended. The second result is a failure of the whole call, after which some of the topics may exist.
func (s *Service) CreateAll(ctx context.Context, topics []message.Topic) ([]error, error) {
	round := make(map[message.Topic]int, len(topics)) // in which a topic is created: after the one above it
	var rounds [][]message.Topic
	for _, t := range topics {
		if _, twice := round[t]; twice {
			continue
		}
		n, below := round[t.Parent()]
		if below {
			n++
		}
		round[t] = n
		if n == len(rounds) {
			rounds = append(rounds, nil)
		}
		rounds[n] = append(rounds[n], t)
	}
	results := make(map[message.Topic]error, len(topics))
	for _, some := range rounds {
		if err := s.createTogether(ctx, some, results); err != nil {
			return nil, err
		}
	}
	errs := make([]error, len(topics))
	for i, t := range topics {
		errs[i] = results[t]
	}
	return errs, nil
}

// createTogether creates topics none of which is to be created below another. A few calls of the store are enough, unless other calls change the
// same topics. It stores the error of each in results.
func (s *Service) createTogether(ctx context.Context, topics []message.Topic, results map[message.Topic]error) error {
	before, err := s.withParents(ctx, topics)
	if err != nil {
		return err
	}
	var inserts []topic.Change
	for _, t := range topics {
		above := t.Parent()
		switch parent := before[above]; {
		case before[t].InForce:
		case before[t].Number == 0 && (above == "" || parent.InForce):
			to := topic.Record{Topic: t, Number: topic.NewNumber(), Parent: parent.Number, InForce: above == ""}
			inserts = append(inserts, topic.Change{From: before[t], To: to})
		default:
			if results[t], err = s.createAlone(ctx, t); err != nil {
				return err
			}
		}
	}
	if err := s.insert(ctx, inserts); err != nil {
		return err
	}
	created := make([]message.Topic, len(inserts))
	for i, step := range inserts {
		created[i] = step.To.Topic
	}
	records, err := s.knownAll(ctx, created)
	if err != nil {
		return err
	}
	for _, r := range records {
		if !r.InForce {
			if results[r.Topic], err = s.createAlone(ctx, r.Topic); err != nil {
				return err
			}
		}
	}
	return nil
}

// insert inserts topics, and finishes those whose parents have no mark. The next reader finishes the others.
func (s *Service) insert(ctx context.Context, inserts []topic.Change) error {
	inserted, err := s.store.Step(ctx, inserts)
	if err != nil {
		return err
	}
	var below []message.Topic
	for i, r := range inserted {
		if r == inserts[i].To && !r.InForce {
			below = append(below, r.Topic)
		}
	}
	after, err := s.withParents(ctx, below)
	if err != nil {
		return err
	}
	var last []topic.Change
	for _, t := range below {
		r, parent := after[t], after[t.Parent()]
		if to := r; r.Number != 0 && !r.InForce && parent.Number == r.Parent && parent.Mark == 0 {
			to.InForce = true
			last = append(last, topic.Change{From: r, To: to})
		}
	}
	_, err = s.store.Step(ctx, last)
	return err
}

// createAlone creates one topic of several. The first result concerns the topic alone.
func (s *Service) createAlone(ctx context.Context, t message.Topic) (refused, failed error) {
	_, err := s.create(ctx, t)
	if _, invalid := errors.AsType[*message.InvalidError](err); invalid || errors.Is(err, ErrContended) {
		return err, nil
	}
	return nil, err
}

// withParents returns the records of topics and of those above them, as they are stored.
func (s *Service) withParents(ctx context.Context, topics []message.Topic) (map[message.Topic]topic.Record, error) {
	var all []message.Topic
	found := make(map[message.Topic]topic.Record)
	for _, below := range topics {
		for _, t := range []message.Topic{below, below.Parent()} {
			if _, twice := found[t]; t != "" && !twice {
				found[t] = topic.Record{}
				all = append(all, t)
			}
		}
	}
	records, err := s.store.Get(ctx, all)
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		found[r.Topic] = r
	}
	return found, nil
}
