package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/message"
)

// standing is how far the fan-out of a message is in a partition.
type standing struct {
	scan            progress.Scan
	planned, inPlan bool
	plan            progress.Fanout
	// ending is how the fan-out ended, or nil. Then the plan may be gone, and the scan counts as done: nothing says what it was.
	ending *message.Ending
}

// givenUp reports whether the fan-out may have been given up before it came to the user.
func (s standing) givenUp() bool { return s.ending != nil && s.ending.GivenUp > 0 }

// standing reads the plan first, and then how it ended. The other way round, a plan could end in between.
func (s *Service) standing(ctx context.Context, partition int, ref message.Ref) (standing, error) {
	var found standing
	fanout, err := s.stores.Progress.Get(ctx, ref.ID)
	switch {
	case err == nil:
		found.planned, found.plan = true, fanout
		found.scan, found.inPlan = fanout.Scans[partition]
	case !errors.Is(err, progress.ErrNotFound):
		return standing{}, err
	}
	endings, err := s.stores.Messages.Endings(ctx, []message.Ref{ref})
	if err == nil {
		err = endings[0].Err
	}
	if err != nil {
		return standing{}, fmt.Errorf("ending of %s: %w", ref.ID, err)
	}
	if endings[0].Concluded {
		return standing{scan: progress.Scan{Done: true}, planned: true, inPlan: true, ending: &endings[0]}, nil
	}
	return found, nil
}
