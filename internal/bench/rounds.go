package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fanmail/fanmail/internal/pebblestore/pebbleraw"
	"github.com/fanmail/fanmail/pkg/message"
)

const (
	// lasting is how many of the last rounds tell what lasts.
	lasting = 10
	// settledAfter is for how long a process has to be idle to count as settled. It is not counted.
	settledAfter = 100 * time.Millisecond
	// blockBytes is the unit in which the system counts what a process has written.
	blockBytes = 512
)

// round is what one message to each follower has cost, until the store had settled.
type round struct {
	took, processor time.Duration
	written, disk   int64 // in bytes; disk is all that is there at the end
}

// rounds measures messages to the same audience, one after another. Each is by one author, or by several to a part of the audience each.
func (e Env) rounds(ctx context.Context, followers, count, several int) (rows []Row, err error) {
	if e.OnMongoDB() {
		return nil, errors.New("rounds are measured on the embedded store only")
	}
	w, err := e.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close(ctx)) }()
	authors, of := []message.UserID{"celebrity"}, ""
	for i := 1; i < several; i++ {
		authors = append(authors, User("celebrity", i))
		of = fmt.Sprintf(" of %d authors", several)
	}
	e.Tell(fmt.Sprintf("making %d followers", followers))
	audience := Users("user", 0, followers)
	if err := w.See(ctx, e.Now(), audience); err != nil {
		return nil, err
	}
	for i, author := range authors {
		if err := w.Follow(ctx, author.Source(), everyNth(audience, i, len(authors))); err != nil {
			return nil, err
		}
	}
	e.Tell("measuring the raw limit")
	var raw []float64
	if _, err := w.rawEmbedded(func(opts pebbleraw.Options) (float64, error) {
		for len(opts.Bodies) < len(authors) {
			opts.Bodies = append(opts.Bodies, e.body())
		}
		raw, err = pebbleraw.Rounds(opts, followers, count)
		return 0, err
	}); err != nil {
		return nil, err
	}
	if err := w.settle(ctx); err != nil {
		return nil, err
	}
	empty, err := size(w.Config.Data)
	if err != nil {
		return nil, err
	}
	all := make([]round, count)
	for i := range all {
		e.Tell(fmt.Sprintf("round %d of %d", i+1, count))
		if all[i], err = w.round(ctx, authors, followers); err != nil {
			return nil, err
		}
	}
	last := min(lasting, count-1)
	for _, part := range []struct {
		name     string
		from, to int
	}{{"round 1", 0, 1}, {fmt.Sprintf("rounds %d to %d", count-last+1, count), count - last, count}} {
		var sum round
		rawSeconds := 0.
		for i := part.from; i < part.to; i++ {
			sum.took += all[i].took
			sum.processor += all[i].processor
			sum.written += all[i].written
			rawSeconds += float64(followers) / raw[i]
		}
		entries := float64(followers * (part.to - part.from))
		rate, rawRate := entries/sum.took.Seconds(), entries/rawSeconds
		row := Row{Case: fmt.Sprintf("%d followers%s, %s", followers, of, part.name), Figures: []Figure{
			{"deliveries", rate, "/s"},
			{"raw", rawRate, "/s"},
			{"of raw", rate / rawRate, ""},
			{"processor a delivery", float64(sum.processor.Microseconds()) / entries, "µs"},
			{"on disk a delivery", float64(all[part.to-1].disk-empty) / float64(followers*part.to), "B"},
		}}
		if sum.written > 0 { // the system does not count what is written to memory
			row.Figures = append(row.Figures, Figure{"written a body's byte", float64(sum.written) / entries / float64(max(e.Body, 1)), ""})
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// round publishes a message of each author and waits until all inboxes have one, and until the process is idle, so until nothing is left to merge.
func (w *World) round(ctx context.Context, authors []message.UserID, followers int) (r round, err error) {
	var before, after syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
		return r, fmt.Errorf("read what the process has used: %w", err)
	}
	drafts := make([]message.Draft, len(authors))
	for i, author := range authors {
		drafts[i] = w.ToFollowers(author)
	}
	began, used := time.Now(), ProcessorTime() //nolint:forbidigo // what is measured is time
	ids, err := w.Publish(ctx, drafts...)
	if err != nil {
		return r, err
	}
	total, err := w.Await(ctx, ids)
	if err != nil {
		return r, err
	}
	if total.Delivered != int64(followers) {
		return r, fmt.Errorf("delivered %d, want %d", total.Delivered, followers)
	}
	r.took = time.Since(began)
	if !w.Env.Busy {
		if err := Idle(ctx, settledAfter, time.Minute); err != nil {
			return r, err
		}
		r.took = time.Since(began) - settledAfter
	}
	r.processor = ProcessorTime() - used
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
		return r, fmt.Errorf("read what the process has used: %w", err)
	}
	r.written = (after.Oublock - before.Oublock) * blockBytes
	r.disk, err = size(w.Config.Data)
	return r, err
}

// size returns the bytes of all files in a folder. A file that is removed meanwhile has none.
func size(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	return bytes, err
}
