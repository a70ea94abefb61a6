//go:build long

package e2e_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/testenv"
)

// mixedTrace writes a trace of mails and of celebrities' messages to followers, and returns the number of messages.
func (w *world) mixedTrace(ctx context.Context) int {
	w.Helper()
	const mailsPerCelebrity, some = 60, 1000
	each := 4
	mails := w.recorded("email-eu.messages.ndjson.gz")
	switch {
	case w.follows != "":
		each = 40
	case full():
		w.follows = w.testdata(recordedGraph)
	default:
		w.partOfGraph(ctx)
	}
	if !full() {
		mails = mails[:some]
	}
	w.write(w.users, testenv.Run(ctx, w.T, programs.Driver, "users", "--last-seen", w.testdata("email-eu.last-seen.tsv"))+
		testenv.Run(ctx, w.T, programs.Driver, "users", "--follows", w.follows))
	celebrities := slices.Collect(strings.Lines(
		testenv.Run(ctx, w.T, programs.Driver, "celebrities", "--follows", w.follows, "--count", "25", "--each", strconv.Itoa(each))))
	var mixed strings.Builder
	count := 0
	for i, mail := range mails {
		mixed.WriteString(mail)
		count++
		if n := i / mailsPerCelebrity; i%mailsPerCelebrity == 0 && n < len(celebrities) {
			mixed.WriteString(celebrities[n])
			count++
		}
	}
	w.write(w.messages, mixed.String())
	return count
}

// recorded returns the lines of a file of recorded data.
func (w *world) recorded(name string) []string {
	w.Helper()
	file, err := os.Open(w.testdata(name))
	require.NoError(w, err)
	defer func() { require.NoError(w, file.Close()) }()
	unzipped, err := gzip.NewReader(bufio.NewReader(file))
	require.NoError(w, err)
	text, err := io.ReadAll(unzipped)
	require.NoError(w, err)
	return slices.Collect(strings.Lines(string(text)))
}

// recordedGraph is the file of a real graph.
const recordedGraph = "wiki-vote.follows.tsv.gz"

// partOfGraph imports some celebrities of the graph and their followers.
func (w *world) partOfGraph(ctx context.Context) {
	w.Helper()
	celebrities := make(map[string]bool)
	for line := range strings.Lines(testenv.Run(ctx, w.T, programs.Driver, "celebrities", "--follows", w.testdata(recordedGraph), "--count", "3")) {
		var m message.Draft
		require.NoError(w, json.Unmarshal([]byte(line), &m))
		celebrities[string(m.From)] = true
	}
	var edges strings.Builder
	for _, line := range w.recorded(recordedGraph) {
		if _, followee, _ := strings.Cut(strings.TrimSpace(line), "\t"); celebrities[followee] {
			edges.WriteString(line)
		}
	}
	w.follows = filepath.Join(w.dir, "graph.tsv")
	w.write(w.follows, edges.String())
}

// part returns the number of mails that a test uses if the whole trace would take too long.
func (w *world) part() int {
	if w.on != embedded {
		return 1000
	}
	return 6000
}
