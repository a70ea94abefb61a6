package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/follow"
	"github.com/fanmail/fanmail/pkg/message"
)

// importChunk is the number of lines per request.
const importChunk = 2000

// maxShownProblems is the maximum number of bad, skipped or rejected lines that are printed.
const maxShownProblems = 10

// jsonListsAll says how to see the lines that were not printed.
const jsonListsAll = " (--json lists all)"

func newImport(p program.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import KIND FILE",
		Short: "Import edges, users, identities, topics or subscriptions from a file",
		Long: "Import edges, users, identities, topics or subscriptions from FILE, or from standard input if FILE is -. The file\n" +
			"may be compressed with gzip. Blank lines and lines that begin with # are ignored. The command reads the whole file\n" +
			"first: if a line is bad, it sends nothing. What exists stays unchanged and counts as imported, so you can\n" +
			"repeat an import.\n\n" +
			"  follows        Who follows whom: each line has a follower, a tab and a followee. A first line that is exactly the\n" +
			"                 words follower, tab, followee is skipped, and the command says so.\n" +
			"  users          When users were last seen: JSON objects with the fields user and last_viewed, one a line. The\n" +
			"                 server rejects a time in the future, and a time before the one that it knows. It rebuilds the\n" +
			"                 inboxes of dormant and new users before the command continues; if no messages were published yet,\n" +
			"                 this takes almost no time. It rejects a user whose rebuild takes too long: repeat the command then.\n" +
			"  identities     Other names of users: JSON objects with the fields kind, value and user. The server rejects an\n" +
			"                 identity that belongs to another user: of two lines with the same identity, the first counts.\n" +
			"  topics         JSON objects with the field topic, created in the order of the lines. The server rejects one if\n" +
			"                 the topic above it does not exist.\n" +
			"  subscriptions  JSON objects with the fields user and topic. The server rejects a topic that does not exist.",
		Example: "  fanmail import follows edges.tsv.gz\n  printf 'ben\\tann\\n' | fanmail import follows -\n" +
			"  echo '{\"user\":\"ann\",\"last_viewed\":\"2026-01-02T15:04:05Z\"}' | fanmail import users -\n" +
			"  echo '{\"kind\":\"email\",\"value\":\"joe@example.com\",\"user\":\"joe\"}' | fanmail import identities -\n" +
			"  echo '{\"topic\":\"programming/go\"}' | fanmail import topics -\n" +
			"  echo '{\"user\":\"ben\",\"topic\":\"programming/go\"}' | fanmail import subscriptions -",
	}
	f := importFlags{process: p, output: newOutput(p, cmd, "print the result as JSON, with every line that was left out")}
	cmd.Flags().BoolVar(&f.skipBad, "skip-bad", false, "skip and count bad and rejected lines")
	users := importing("users", &importer[client.Seen]{
		importFlags: &f, one: "user", many: "users", parse: parseSeen, requests: 1, send: (*client.Client).SetSeenBatch,
	})
	users.role = app.Rehydrator
	return withActions(
		p, app.Publisher, cmd,
		importing("follows", &importer[follow.Pair]{
			importFlags: &f, one: "edge", many: "edges", parse: parsePair, header: pairHeader, requests: 4, send: (*client.Client).FollowBatch,
		}),
		users,
		importing("identities", &importer[client.IdentityLine]{
			importFlags: &f, one: "identity", many: "identities", parse: parseIdentityLine, requests: 1, send: (*client.Client).SetIdentityBatch,
		}),
		importing("topics", &importer[message.Topic]{
			importFlags: &f, one: "topic", many: "topics", parse: parseTopicLine, requests: 1, send: (*client.Client).CreateTopicBatch,
		}),
		importing("subscriptions", &importer[client.Subscription]{
			importFlags: &f, one: "subscription", many: "subscriptions", parse: parseSubscription, requests: 4, send: (*client.Client).SubscribeBatch,
		}),
	)
}

// importing returns the action that imports a file.
func importing[T any](name string, i *importer[T]) action {
	return action{name: name, args: program.Exactly("FILE"), do: func(ctx context.Context, c *client.Client, args []string) error {
		return withSource(ctx, i.process, args[0], func(file *source) error { return i.run(ctx, c, file) })
	}}
}

// importFlags are what all imports share.
type importFlags struct {
	process program.Process
	output  *output
	skipBad bool
}

// importer imports a file whose records have one type.
type importer[T any] struct {
	*importFlags

	// one and many are the noun for one record and for several.
	one, many string
	parse     parser[T]
	// header is a first line that names the columns and is skipped; empty if the records have none.
	header string
	send   func(*client.Client, context.Context, []T) (client.BatchResult, error)
	// requests is the number of concurrent requests. It is 1 if the order of records matters.
	requests int
}

// imported is the result of an import.
type imported struct {
	Imported int       `json:"imported"`
	Bad      int       `json:"bad"`
	Rejected int       `json:"rejected"`
	Problems []problem `json:"problems"`
	Seconds  float64   `json:"seconds"`
}

func (i *importer[T]) run(ctx context.Context, c *client.Client, file *source) error {
	begun := i.process.Now()
	file.header = i.header
	found, err := examine(ctx, i.process.Stderr, file, i.parse, i.skipBad)
	if err != nil {
		return err
	}
	result, err := i.sendAll(ctx, c, file, found.good)
	if err != nil {
		return fmt.Errorf("%w; %s of %s were imported: repeat the command, which leaves those unchanged",
			err, count(result.Imported), plural(found.good, i.one, i.many))
	}
	result.Bad = len(found.bad)
	result.Problems = append(result.Problems, found.bad...)
	slices.SortFunc(result.Problems, func(a, b problem) int { return a.Line - b.Line })
	took := i.process.Now().Sub(begun)
	result.Seconds = took.Seconds()
	return i.report(file, result, took)
}

// sendAll sends the good lines of a file. If it fails, the result still counts the imported lines.
func (i *importer[T]) sendAll(ctx context.Context, c *client.Client, file *source, total int) (imported, error) {
	bar := newProgress(i.process, "importing "+i.many, int64(total))
	defer bar.close()
	var mu sync.Mutex
	result := imported{Problems: []problem{}}
	requests, sending := errgroup.WithContext(ctx)
	requests.SetLimit(i.requests)
	err := eachChunk(sending, file, i.parse, importChunk, func(next chunk[T]) error {
		requests.Go(func() error {
			answer, err := i.send(c, sending, next.values)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			result.Imported += answer.Accepted
			result.Rejected += len(answer.Rejected)
			for _, r := range answer.Rejected {
				if r.Line < 1 || r.Line > len(next.lines) {
					return fmt.Errorf("the server rejected line %d of %d: it does not speak this version", r.Line, len(next.lines))
				}
				result.Problems = append(result.Problems, problem{Line: next.lines[r.Line-1], Error: r.Error})
			}
			bar.add(len(next.values))
			return nil
		})
		return nil
	})
	// A failed request cancels the reading. So the error of the request is the cause, and the error of the reading only follows
	// from it.
	if sendErr := requests.Wait(); sendErr != nil {
		err = sendErr
	}
	return result, err
}

func (i *importer[T]) report(file *source, result imported, took time.Duration) error {
	err := i.output.print(result, func(w io.Writer) error {
		if err := showProblems(i.process.Stderr, file, result.Problems, 0, jsonListsAll); err != nil {
			return err
		}
		missing := ""
		if n := result.Bad + result.Rejected; n > 0 {
			missing = ", left out " + plural(n, "line", "lines")
		}
		return printf(w, "imported %s in %s%s\n", plural(result.Imported, i.one, i.many), seconds(took), missing)
	})
	if err == nil && result.Rejected > 0 && !i.skipBad {
		err = fmt.Errorf("the server rejected %s of %s", plural(result.Rejected, "line", "lines"), file.name)
	}
	return err
}
