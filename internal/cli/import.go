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
)

// importChunk is the number of lines per request.
const importChunk = 2000

// maxShownProblems is the maximum number of bad, skipped or rejected lines that are printed.
const maxShownProblems = 10

// jsonListsAll says how to see the lines that were not printed.
const jsonListsAll = " (--json lists all)"

func newImport(p program.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Import edges, users, identities, topics or subscriptions from a file",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return program.Usagef("say what to import: follows, users, identities, topics or subscriptions")
			}
			return unknownCommand(cmd, args[0])
		},
	}
	cmd.AddCommand(newImportFollows(p), newImportUsers(p), newImportIdentities(p), newImportTopics(p), newImportSubscriptions(p))
	return cmd
}

// importer imports a file whose records have one type.
type importer[T any] struct {
	process program.Process
	server  server
	role    app.Role // the role that serves the request
	output  output
	skipBad bool

	// one and many are the noun for one record and for several.
	one, many string
	parse     parser[T]
	// header is a first line that names the columns and is skipped; empty if the records have none.
	header string
	send   func(context.Context, *client.Client, []T) (client.BatchResult, error)
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

func (i *importer[T]) addFlags(cmd *cobra.Command) {
	i.output.w = i.process.Stdout
	i.server.addServer(cmd, i.role)
	i.output.addJSON(cmd, "print the result as JSON, with every line that was left out")
	cmd.Flags().BoolVar(&i.skipBad, "skip-bad", false, "skip and count bad and rejected lines")
}

func (i *importer[T]) run(ctx context.Context, path string) (err error) {
	c, err := i.server.dial(i.process)
	if err != nil {
		return err
	}
	defer c.Close()
	file, err := openSource(ctx, i.process, path)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := file.close(); err == nil {
			err = closeErr
		}
	}()
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
			answer, err := i.send(sending, c, next.values)
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
