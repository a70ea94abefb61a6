package deadletter

import (
	"context"
	"errors"
	"fmt"

	"github.com/fanmail/fanmail/internal/progress"
	"github.com/fanmail/fanmail/pkg/event"
	"github.com/fanmail/fanmail/pkg/message"
)

// ErrGivenUp means that the task of a dead letter was given up, because another letter about it was dropped. Such a letter can only be
// dropped.
var ErrGivenUp = errors.New("the task was given up; drop the dead letter")

// Drop removes a dead letter permanently. Its recipients do not get the message. Drop first gives up the scan of a
// task, durably, and ends the message if nothing else is left of its plan. It leaves a scan that is not dead, because another letter about the task was redriven. Drop
// returns ErrNotFound, ErrBus or an error of the store. The letter stays after every error. Call Drop again then.
func (s *Service) Drop(ctx context.Context, id uint64) error {
	filed, err := s.Get(ctx, id)
	if err != nil {
		return err
	}
	if task, err := event.DecodeTask(filed.Payload); err == nil {
		if _, err := s.giveUp(ctx, task); err != nil && !errors.Is(err, message.ErrCorrupt) { // a damaged record must not keep the letter
			return err
		}
	}
	if err := s.Bus.Drop(ctx, id); err != nil {
		return ofBus(err)
	}
	s.log(filed).Msg("dead letter is dropped")
	return nil
}

// giveUp gives up the scan of a task, if it is dead, and ends the message if nothing else is left of its plan. It reports whether the scan is open
// instead.
func (s *Service) giveUp(ctx context.Context, task event.Task) (open bool, err error) {
	for {
		scan, planned, err := s.scan(ctx, task)
		switch {
		case err != nil || !planned:
			return false, err
		case scan.Open():
			return true, nil
		case scan.Ended():
			ender := progress.Ender{Messages: s.Messages, Plans: s.Progress, Round: s.Round}
			if _, err := ender.EndPlanned(ctx, []message.Ref{task.Ref()}); err != nil {
				return false, ofTask(task, err)
			}
			return false, nil
		}
		if _, err := s.step(ctx, task, scan, scan.GiveUp()); err != nil {
			return false, err
		}
	}
}

// revive marks the scan of a task as alive. It does nothing if the scan is not dead. It returns ErrGivenUp if the scan was given up, also if
// its plan has ended since.
func (s *Service) revive(ctx context.Context, task event.Task) error {
	for {
		scan, planned, err := s.scan(ctx, task)
		switch {
		case err == nil && !planned:
			return s.ended(ctx, task.Ref())
		case err != nil || !scan.Dead:
			return err
		case scan.GivenUp:
			return ErrGivenUp
		}
		alive := scan
		alive.Dead = false
		if stepped, err := s.step(ctx, task, scan, alive); err != nil || stepped.Applied {
			return err
		}
	}
}

// ended returns ErrGivenUp if the plan of a message has ended, and a part of the fan-out was given up. Nothing says any more which part.
func (s *Service) ended(ctx context.Context, ref message.Ref) error {
	endings, err := s.Messages.Endings(ctx, []message.Ref{ref})
	if err == nil {
		err = endings[0].Err
	}
	switch {
	case err != nil:
		return fmt.Errorf("ending of %s: %w", ref.ID, err)
	case endings[0].GivenUp > 0:
		return ErrGivenUp
	}
	return nil
}

// scan returns the scan of a task, and false if the message is not planned for its partition.
func (s *Service) scan(ctx context.Context, task event.Task) (progress.Scan, bool, error) {
	scans, planned, err := s.Progress.Scans(ctx, task.Partition, []message.ID{task.ID})
	if err != nil {
		return progress.Scan{}, false, ofTask(task, err)
	}
	return scans[0], planned[0], nil
}

func (s *Service) step(ctx context.Context, task event.Task, from, to progress.Scan) (progress.Moved, error) {
	stepped, err := s.Progress.Step(ctx, []progress.Move{{ID: task.ID, Partition: task.Partition, From: from, To: to}}, s.opts.Now())
	if err != nil {
		return progress.Moved{}, ofTask(task, err)
	}
	return stepped[0], nil
}

func ofTask(task event.Task, err error) error {
	return fmt.Errorf("fan-out of %s in partition %d: %w", task.ID, task.Partition, err)
}
