//go:build long

package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/test/testenv"
)

// size has the numbers for a run of TestClockIsSet.
type size struct {
	pairs, mails int
	// gap is the average absence of a user. keep is the interval at which a twin is seen.
	gap, keep time.Duration
	// spread is how far the horizons of the users are from now at most, either way.
	spread time.Duration
}

// dormantAfter is the default of dormant_after.
const dormantAfter = 30 * 24 * time.Hour

// seed returns the seed of the random choices: FANMAIL_E2E_SEED, or a random number.
func seed(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64() >> 32
	if text := os.Getenv("FANMAIL_E2E_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("FANMAIL_E2E_SEED=%d", seed)
	return seed
}

// writeTwins creates the files of users, edges, topics and messages for pairs of twins, and returns the file of the pairs.
func (w *world) writeTwins(ctx context.Context, size size, seed uint64) (pairs string) {
	w.Helper()
	testenv.Run(ctx, w.T, programs.Driver, "twins", "--mails", w.testdata("email-eu.messages.ndjson.gz"),
		"--follows", w.testdata("wiki-vote.follows.tsv.gz"), "--dir", w.dir,
		"--pairs", strconv.Itoa(size.pairs), "--first", strconv.Itoa(size.mails), "--seed", strconv.FormatUint(seed, 10))
	pairs, w.follows, w.messages = w.dir+"/pairs.tsv", w.dir+"/follows.tsv", w.dir+"/script.ndjson"
	w.generate(ctx, w.users, "users", "--last-seen", w.lastSeen(pairs, size.spread))
	w.checking = append(w.checking, "--pairs", pairs)
	return pairs
}

// lastSeen writes when the users of pairs were seen last. Their horizons are spread evenly around the present. Their twins were just seen.
func (w *world) lastSeen(pairs string, spread time.Duration) (file string) {
	w.Helper()
	lines := w.contents(pairs)
	var text strings.Builder
	for i, line := range lines {
		user, twin, _ := strings.Cut(strings.TrimSpace(line), "\t")
		left := time.Duration(i)*2*spread/time.Duration(len(lines)) - spread
		fmt.Fprintf(&text, "%s\t%f\n%s\t0\n", user, (dormantAfter-left).Hours()/24, twin)
	}
	file = filepath.Join(w.dir, "last-seen.tsv")
	w.write(file, text.String())
	return file
}

// roam starts to let the users of pairs look at random.
func (w *world) roam(ctx context.Context, pairs string, size size, seed uint64) *testenv.Process {
	w.Helper()
	log := filepath.Join(w.dir, "looks.ndjson")
	w.logins = append(w.logins, log)
	return testenv.Exec(ctx, w.T, nil, programs.Driver, "roam", "--server", w.site.URL(), "--pairs", pairs, "--log", log,
		"--seed", strconv.FormatUint(seed, 10), "--gap", size.gap.String(), "--keep", size.keep.String(), "--connections", "16")
}

// everyoneLogsIn lets all users of the pairs log in.
func (w *world) everyoneLogsIn(ctx context.Context, pairs string) {
	w.Helper()
	w.login(ctx, pairs, "--by", "either")
	var twins strings.Builder
	for _, line := range w.contents(pairs) {
		_, twin, _ := strings.Cut(line, "\t")
		twins.WriteString(twin)
	}
	file := filepath.Join(w.dir, "twins")
	w.write(file, twins.String())
	w.login(ctx, file)
}
