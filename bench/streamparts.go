package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/bench"
	"github.com/fanmail/fanmail/internal/startstop"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// parts opens the streams and measures what was asked for. The names of the rows begin with the server.
func (s *streaming) parts(ctx context.Context, server string) error {
	for _, part := range []struct {
		name    string
		measure func(ctx context.Context, server string) error
	}{{"open", s.open}, {"all", s.toAll}, {"one", s.toOne}, {"rate", s.rate}, {"churn", s.churn}} {
		if part.name != "open" && !s.asked(part.name) {
			continue
		}
		if err := part.measure(ctx, server); err != nil {
			return fmt.Errorf("%s%s: %w", server, part.name, err)
		}
	}
	return nil
}

// open opens the streams, and measures their memory and the processor time of idle ones.
func (s *streaming) open(ctx context.Context, server string) error {
	s.Tell(fmt.Sprintf("%sopening %d streams", server, len(s.users)))
	if err := s.server.settle(ctx); err != nil {
		return err
	}
	before, _, err := s.server.usage(true)
	if err != nil {
		return err
	}
	began := s.clock()
	if err := s.fleet.open(ctx, s.users); err != nil {
		return err
	}
	took := time.Since(began)
	if err := s.server.settle(ctx); err != nil || !s.asked("open") {
		return err
	}
	_, usedBefore, err := s.server.usage(false)
	startstop.Pause(ctx, s.o.Idle)
	after, usedAfter, err2 := s.server.usage(false)
	live, _, err3 := s.server.usage(true)
	each := func(bytes float64) float64 { return bytes / 1024 / float64(len(s.users)) }
	s.row(fmt.Sprintf("%s%d streams", server, len(s.users)),
		figure("opened", float64(len(s.users))/took.Seconds(), "/s"),
		figure("memory before", before/(1<<20), "MiB"),
		figure("memory a stream", each(after-before), "KiB"),
		figure("without garbage", each(live-before), "KiB"),
		figure("processor while idle", 100*(usedAfter-usedBefore).Seconds()/s.o.Idle.Seconds(), "%"))
	return errors.Join(err, err2, err3)
}

// toAll measures messages to all streams, one after the other.
func (s *streaming) toAll(ctx context.Context, server string) error {
	s.Tell(server + "sending messages to all streams")
	var each, last, done bench.Times
	for range s.o.Rounds {
		if err := s.server.settle(ctx); err != nil {
			return err
		}
		sent := s.clock()
		ids, err := s.publish(ctx, nil)
		if err != nil {
			return err
		}
		if s.server.kind == fanmailServer {
			id, err := message.ParseID(ids[0])
			if err != nil {
				return err
			}
			if _, err := s.client.WaitDone(ctx, id, time.Millisecond); err != nil {
				return err
			}
			done = append(done, time.Since(sent))
		}
		if missing, err := s.fleet.wait(ctx, len(s.users)); err != nil || missing > 0 {
			return fmt.Errorf("%d streams got no message: %w", missing, err)
		}
		final := time.Duration(0)
		for _, a := range s.fleet.collect() {
			each, final = append(each, a.at.Sub(sent)), max(final, a.at.Sub(sent))
		}
		last = append(last, final)
	}
	s.frame, s.last = slices.Clone(s.fleet.watchers[0].data), last.Percentile(50)
	figures := append(bench.Latency("frame after sending", each), figure("last frame", s.last, "ms"))
	if len(done) > 0 {
		figures = append(figures, figure("fan-out done", done.Percentile(50), "ms"))
	}
	s.row(server+allRow(len(s.users)), append(figures, figure("bytes of a frame", float64(len(s.frame)), ""))...)
	return nil
}

// toOne measures messages to one stream at a time, while nothing else happens.
func (s *streaming) toOne(ctx context.Context, server string) error {
	s.Tell(server + "sending messages to one stream at a time")
	if err := s.server.settle(ctx); err != nil {
		return err
	}
	var sent, accepted bench.Times
	for n := range s.o.Probes {
		startstop.Pause(ctx, tick)
		a, b, err := s.probe(ctx, s.users[n*7919%len(s.users)])
		if err != nil {
			return err
		}
		sent, accepted = append(sent, a), append(accepted, b)
	}
	s.row(fmt.Sprintf("%sa message to one of %d", server, len(s.users)),
		append(bench.Latency("frame after sending", sent), bench.Latency("frame after accepted", accepted)...)...)
	return nil
}

// probe sends a message to a user with a stream, and returns how long after the sending and after the answer its frame came. A frame may be there
// before the answer.
func (s *streaming) probe(ctx context.Context, user string) (sent, accepted time.Duration, err error) {
	began := s.clock()
	if _, err := s.publish(ctx, []string{user}); err != nil {
		return 0, 0, err
	}
	answered := s.clock()
	if missing, err := s.fleet.wait(ctx, 1); err != nil || missing > 0 {
		return 0, 0, fmt.Errorf("the stream of %s got no message: %w", user, err)
	}
	got := s.fleet.collect()[0].at
	return got.Sub(began), max(0, got.Sub(answered)), nil
}

// paced calls do so many times a second for a time, a number of times together. Turns that come too late are not left out.
func (s *streaming) paced(ctx context.Context, rate, together int, long time.Duration, do func(ctx context.Context, turn int, due time.Time) error) error {
	interval, began := time.Second*time.Duration(together)/time.Duration(rate), s.clock()
	group, ctx := errgroup.WithContext(ctx)
	for worker := range workers {
		group.Go(func() error {
			for turn := worker; interval*time.Duration(turn) < long; turn += workers {
				due := began.Add(interval * time.Duration(turn))
				startstop.Pause(ctx, time.Until(due))
				if err := errors.Join(ctx.Err(), do(ctx, turn, due)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// rate measures messages to one stream each. It counts what each stream gets.
func (s *streaming) rate(ctx context.Context, server string) error {
	s.Tell(fmt.Sprintf("%ssending %d messages a second", server, s.o.Rate))
	if err := s.server.settle(ctx); err != nil {
		return err
	}
	type moment struct{ due, answered time.Time }
	var mu sync.Mutex
	sent := make(map[string]moment)
	together := max(1, s.o.Rate*int(tick)/int(time.Second))
	began := s.clock()
	err := s.paced(ctx, s.o.Rate, together, s.o.RateFor, func(ctx context.Context, turn int, due time.Time) error {
		to := make([][]string, together)
		for i := range to {
			to[i] = []string{s.users[(turn*together+i)*7919%len(s.users)]}
		}
		ids, err := s.publish(ctx, to...)
		answered := s.clock()
		mu.Lock()
		defer mu.Unlock()
		for _, id := range ids {
			sent[id] = moment{due, answered}
		}
		return err
	})
	if err != nil {
		return err
	}
	rate := float64(len(sent)) / time.Since(began).Seconds()
	if _, err := s.fleet.wait(ctx, len(sent)); err != nil {
		return err
	}
	var due, accepted bench.Times
	got, twice := s.fleet.collect(), 0
	for _, a := range got {
		m, first := sent[a.id]
		if !first {
			twice++
			continue
		}
		delete(sent, a.id)
		due, accepted = append(due, a.at.Sub(m.due)), append(accepted, max(0, a.at.Sub(m.answered)))
	}
	if len(due) == 0 {
		return errors.New("no message came")
	}
	s.row(fmt.Sprintf("%s%d messages a second, %d streams", server, s.o.Rate, len(s.users)), slices.Concat(
		[]Figure{figure("accepted", rate, "/s"), figure("lost", float64(len(sent)), ""), figure("twice", float64(twice), "")},
		bench.Latency("frame after due", due), []Figure{figure("last after due", due.Percentile(100), "ms")},
		bench.Latency("frame after accepted", accepted), []Figure{figure("last after accepted", accepted.Percentile(100), "ms")})...)
	if len(sent)+twice > 0 && s.server.kind == fanmailServer {
		return fmt.Errorf("%d messages were lost, and %d came twice", len(sent), twice)
	}
	return nil
}

// churn closes streams and opens them again after their position.
func (s *streaming) churn(ctx context.Context, server string) error {
	s.Tell(fmt.Sprintf("%sreconnecting %d streams a second", server, s.o.Churn))
	err := s.server.settle(ctx)
	before, _, err2 := s.server.usage(true)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	var mu sync.Mutex
	var took bench.Times
	var failed atomic.Int64
	began, whole := s.clock(), len(s.users)/workers*workers // so that each stream has one worker
	err = s.paced(ctx, s.o.Churn, 1, s.o.ChurnFor, func(ctx context.Context, turn int, _ time.Time) error {
		each, err := s.fleet.reopen(ctx, turn%whole)
		if err != nil {
			failed.Add(1)
			s.Logger.Warn().Err(err).Msg("a stream could not be opened again")
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		took = append(took, each)
		return nil
	})
	rate := float64(len(took)) / time.Since(began).Seconds()
	err2 = s.server.settle(ctx)
	after, _, err3 := s.server.usage(false)
	live, _, err4 := s.server.usage(true)
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return err
	}
	if len(took) == 0 {
		return errors.New("no stream was opened again")
	}
	s.row(fmt.Sprintf("%sreconnects of %d streams", server, len(s.users)), append(
		[]Figure{figure("reconnects", rate, "/s"), figure("errors", float64(failed.Load()+s.fleet.broken.Load()), "")},
		append(bench.Latency("first event", took),
			figure("memory before", before/(1<<20), "MiB"), figure("memory after", after/(1<<20), "MiB"), figure("without garbage", live/(1<<20), "MiB"))...)...)
	return nil
}

// resume measures what a client gets that comes back after some messages, after more than centrifuge keeps, and with a position that the server does
// not know. position returns that of a stream, and resumed reports whether the first event says that the stream goes on after it.
func (s *streaming) resume(ctx context.Context, server string, position func(*watcher) string, unknown string, resumed func([]byte) (bool, error)) error {
	s.Tell(server + "resuming")
	const user, pause = "user-0000000", time.Second
	if err := s.fleet.close(); err != nil {
		return err
	}
	if err := s.fleet.open(ctx, []string{user}); err != nil { // it says when all are there
		return err
	}
	for _, of := range []struct {
		name   string
		missed int
		at     string
	}{
		{"resumed, few missed", (s.o.History + 1) / 2, ""},
		{"resumed, many missed", 2 * s.o.History, ""},
		{"resumed, unknown position", 1, unknown},
	} {
		w, err := s.fleet.dial(ctx, user, "")
		if err != nil {
			return err
		}
		w.close()
		at := position(w)
		if of.at != "" {
			at = of.at
		}
		if _, err := s.publish(ctx, slices.Repeat([][]string{{user}}, of.missed)...); err != nil {
			return err
		}
		if missing, err := s.fleet.wait(ctx, of.missed); err != nil || missing > 0 {
			return fmt.Errorf("%d messages did not come: %w", missing, err)
		}
		came, says := 0, "no stream"
		if back, err := s.fleet.dial(ctx, user, at); err != nil {
			says += ": " + err.Error()
		} else {
			startstop.Pause(ctx, pause)
			back.close()
			goesOn, err := resumed(back.first)
			if err != nil {
				return err
			}
			back.mu.Lock()
			came, says = len(idsOf(back.first))+len(back.got), fmt.Sprintf("the server says resumed: %t", goesOn)
			back.mu.Unlock()
		}
		s.fleet.collect()
		s.row(server+of.name, figure("missed", float64(of.missed), ""), figure("came", float64(came), ""))
		s.report.Conclusions = append(s.report.Conclusions, Fact{Name: server + of.name, Value: fmt.Sprintf("%s, %d of %d came", says, came, of.missed)})
	}
	return nil
}

// fanout measures fan-outs while some of their recipients watch, in turns with fan-outs that nobody watches, and direct messages to others.
func (s *streaming) fanout(ctx context.Context) error {
	followers := make([]string, s.o.Recipients)
	for n := range followers {
		followers[n] = string(bench.User("user", n))
	}
	others := []string{"other-0", "other-1", "other-2", "other-3", "other-4", "other-5", "other-6", "other-7"}
	if err := s.people(ctx, followers, others...); err != nil {
		return err
	}
	if err := s.fleet.open(ctx, others); err != nil {
		return err
	}
	var watching []string
	for n := range s.o.Watchers {
		watching = append(watching, followers[n*s.o.Recipients/s.o.Watchers])
	}
	var runs [2][]fanned // alone and watched
	var ratios bench.Times
	for pair := range s.o.Pairs {
		s.Tell(fmt.Sprintf("fanning out to %d, pair %d of %d", s.o.Recipients, pair+1, s.o.Pairs))
		for turn := range 2 {
			which := (turn + pair) % 2 // each is first in half of the pairs
			f, err := s.fanOne(ctx, watching[:which*len(watching)], others)
			if err != nil {
				return err
			}
			runs[which] = append(runs[which], f)
		}
		ratio := runs[0][pair].took.Seconds() / runs[1][pair].took.Seconds()
		ratios = append(ratios, time.Duration(ratio*float64(time.Millisecond))) // Percentile is in milliseconds
	}
	name := fmt.Sprintf("fan-out to %d", s.o.Recipients)
	for which, of := range []string{name, fmt.Sprintf("%s, %d watch", name, s.o.Watchers)} {
		var took, sent, accepted, frames, behind bench.Times
		for _, f := range runs[which] {
			took, sent, accepted = append(took, f.took), append(sent, f.sent...), append(accepted, f.accepted...)
			frames, behind = append(frames, f.frames...), append(behind, f.behind...)
		}
		figures := []Figure{figure("deliveries", float64(s.o.Recipients)/took.Percentile(50)*1000, "/s")}
		if which == 1 {
			figures = append(figures, figure("of unwatched, median", ratios.Percentile(50), ""),
				figure("of unwatched, lowest", ratios.Percentile(0), ""), figure("of unwatched, highest", ratios.Percentile(100), ""))
			figures = append(append(figures, bench.Latency("frame after accepted", frames)...), figure("frame after done, most", behind.Percentile(100), "ms"))
		}
		s.row(of, figures...)
		s.row("direct message during "+of, append(bench.Latency("frame after sending", sent), bench.Latency("frame after accepted", accepted)...)...)
	}
	return nil
}

// fanned is what a fan-out took until it was done, what direct messages took meanwhile, and when its watchers had it: after it was accepted, and
// after it was done.
type fanned struct {
	took                           time.Duration
	sent, accepted, frames, behind bench.Times
}

func (s *streaming) fanOne(ctx context.Context, watching, others []string) (f fanned, err error) {
	seen := newFleet(s.server.url, s.fleet.path)
	defer func() { err = errors.Join(err, seen.close()) }()
	if err := errors.Join(seen.open(ctx, watching), s.server.settle(ctx)); err != nil {
		return f, err
	}
	began := s.clock()
	receipt, err := s.client.Publish(ctx, message.Draft{From: streamAuthor, Audience: message.AudienceFollowers, Body: s.body()}, "")
	if err != nil {
		return f, err
	}
	answered := s.clock()
	done := make(chan error, 1)
	var status client.Status
	go func() {
		var err error
		status, err = s.client.WaitDone(ctx, receipt.ID, time.Millisecond)
		f.took = time.Since(began)
		done <- err
	}()
	for n := 0; ; n++ {
		sent, accepted, probeErr := s.probe(ctx, others[n%len(others)])
		f.sent, f.accepted = append(f.sent, sent), append(f.accepted, accepted)
		select {
		case err := <-done:
			if err = errors.Join(err, probeErr); err == nil && status.Fanout.Delivered != int64(s.o.Recipients) {
				err = fmt.Errorf("delivered to %d of %d", status.Fanout.Delivered, s.o.Recipients)
			}
			if err != nil {
				return f, err
			}
			missing, err := seen.wait(ctx, len(watching))
			if err == nil && missing > 0 {
				err = fmt.Errorf("%d watchers got nothing", missing)
			}
			for _, a := range seen.collect() {
				f.frames, f.behind = append(f.frames, a.at.Sub(answered)), append(f.behind, max(0, a.at.Sub(began)-f.took))
			}
			return f, err
		default:
			startstop.Pause(ctx, tick)
		}
	}
}
