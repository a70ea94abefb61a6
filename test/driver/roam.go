package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// roamed is the summary of the command "roam".
type roamed struct {
	Seed  uint64 `json:"seed"`
	Pairs int    `json:"pairs"`
	// Logins and Openings count looks, Pages the read pages.
	Logins   int `json:"logins"`
	Openings int `json:"openings"`
	Pages    int `json:"pages"`
	// CameBack counts the logins of dormant users, Provisional the first pages that were not complete.
	CameBack    int   `json:"came_back"`
	Provisional int   `json:"provisional"`
	Recovered   int64 `json:"recovered"`
	// Kept counts how often a twin was set as seen. KeptEvery is the longest time, in milliseconds, from one recorded visit of a
	// twin until the server had recorded the next. If it is below dormant_after, no twin was ever dormant.
	Kept      int   `json:"kept"`
	KeptEvery int64 `json:"kept_every_ms"`
	// Late counts twins whose visit came too late: the server answered that it had to rebuild their inbox.
	Late   int `json:"late"`
	Busy   int `json:"busy"`
	Broken int `json:"broken"`
}

func roam(ctx context.Context, args []string, p program) error {
	flags := newFlags(p, "roam", "driver roam lets the users of a file of pairs look at random: log in, open their inbox, leaf through it; and logs what they\n"+
		"saw. Meanwhile it has their twins seen all the time. It ends when it is interrupted or terminated. While the server is\n"+
		"away or busy it goes on trying.")
	url := flags.String("server", "http://127.0.0.1:8080", "URL of the server")
	file := flags.String("pairs", "", "`file` with a user, a tab, and their twin on each line (required)")
	log := flags.String("log", "", "`file` to log to (required; replaced)")
	seed := flags.Uint64("seed", 1, "decides who looks, when, and how")
	gap := flags.Duration("gap", 6*time.Second, "how long it is on average from one look of a user to the next")
	keep := flags.Duration("keep", time.Second, "how often the twins are seen")
	connections := flags.Int("connections", 16, "how many looks are under way at a time")
	switch err := parse(flags, args); {
	case err != nil:
		return err
	case *file == "" || *log == "":
		return wrong(flags, "give --pairs and --log")
	case *connections < 1:
		return wrong(flags, "--connections must be 1 or more")
	}
	r := &roaming{
		viewer: viewer{caller: newCaller(strings.TrimRight(*url, "/"), 0), now: p.now},
		seed:   *seed, gap: *gap, keepEvery: *keep,
	}
	if err := r.readPairs(*file); err != nil {
		return err
	}
	out, err := os.Create(*log)
	if err != nil {
		return err
	}
	r.log = newLog(out)
	err = r.run(ctx, min(*connections, len(r.users)))
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	r.summary.Seed, r.summary.Pairs = *seed, len(r.users)
	r.summary.Busy, r.summary.Broken = int(r.busy.Load()), int(r.broken.Load())
	return json.NewEncoder(p.stdout).Encode(r.summary)
}

// roaming makes users look at random.
type roaming struct {
	viewer
	seed      uint64
	gap       time.Duration
	keepEvery time.Duration
	log       *looksLog

	users, twins []string

	mu      sync.Mutex
	summary roamed
}

func (r *roaming) readPairs(path string) error {
	err := eachLine(path, func(_ int, line []byte) error {
		user, twin, ok := strings.Cut(string(line), "\t")
		if !ok {
			return errors.New("there is no tab between a user and their twin")
		}
		r.users, r.twins = append(r.users, user), append(r.twins, twin)
		return nil
	})
	if err == nil && len(r.users) == 0 {
		err = fmt.Errorf("%s: there are no pairs", path)
	}
	return err
}

// run makes users look until it is interrupted. One worker has all looks of a user, so they follow one another. A started look is
// finished, so its effect is known.
func (r *roaming) run(ctx context.Context, workers int) error {
	ended := ctx.Done()
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	var working sync.WaitGroup
	again := func(do func() error, pause func() time.Duration) {
		working.Go(func() {
			for {
				timer := time.NewTimer(pause())
				select {
				case <-timer.C:
				case <-ended:
					timer.Stop()
					return
				case <-ctx.Done():
					timer.Stop()
					return
				}
				if err := do(); err != nil {
					cancel(err)
				}
			}
		})
	}
	for worker := range workers {
		random := rand.New(rand.NewPCG(r.seed, uint64(worker)))
		var mine []string
		for i := worker; i < len(r.users); i += workers {
			mine = append(mine, r.users[i])
		}
		mean := float64(r.gap) / float64(len(mine))
		again(
			func() error { return r.look(ctx, mine[random.IntN(len(mine))], random) },
			func() time.Duration { return time.Duration(random.ExpFloat64() * mean) },
		)
	}
	for share := range slices.Chunk(r.twins, twinsPerBatch) { // one at a time, so that a late user delays no other user
		last := r.now()
		again(func() (err error) {
			last, err = r.see(ctx, share, last)
			return err
		}, func() time.Duration { return r.keepEvery })
	}
	working.Wait()
	return context.Cause(ctx)
}

// look makes one user look.
func (r *roaming) look(ctx context.Context, user string, random *rand.Rand) error {
	// Draw all random numbers in every case, so that a seed always gives the same sequence.
	login, size, pages := random.IntN(3) == 0, []int{7, 50, 100}[random.IntN(3)], 1+random.IntN(4)
	l := r.begin(user, byInbox)
	if login {
		l.By = byLogin
		if err := r.login(ctx, &l); err != nil {
			return err
		}
	}
	if err := r.open(ctx, &l, size, pages); err != nil {
		return err
	}
	l.Answered = r.now().UTC()
	l.FirstMS = r.millis(&l)
	r.count(&l)
	return r.log.add(l)
}

func (r *roaming) count(l *look) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.By == byLogin {
		r.summary.Logins++
	} else {
		r.summary.Openings++
	}
	if l.Was == "dormant" || l.Was == "new" {
		r.summary.CameBack++
	}
	if l.Recovered != nil {
		r.summary.Recovered += *l.Recovered
	}
	if !l.Read.Complete {
		r.summary.Provisional++
	}
	r.summary.Pages += l.Read.Pages
}

// twinsPerBatch is the number of twins in one request.
const twinsPerBatch = 100

// see sets twins as seen now. last is the time of their previous visit. It returns the new time.
func (r *roaming) see(ctx context.Context, twins []string, last time.Time) (time.Time, error) {
	begun := r.now()
	at := begun.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano)
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	for _, twin := range twins {
		if err := encoder.Encode(seen{User: twin, LastViewed: at}); err != nil {
			return last, err
		}
	}
	accepted, _, err := r.batch(ctx, "/v1/users:batch", body.Bytes())
	if err != nil {
		return last, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.summary.Kept += accepted
	r.summary.Late += len(twins) - accepted
	r.summary.KeptEvery = max(r.summary.KeptEvery, r.now().Sub(last).Milliseconds())
	return begun, nil
}
