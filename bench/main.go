// Command bench is Fanmail's laboratory: it measures what an operator does not need for sizing hardware. README.md lists its commands.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/bench/trace"
	"github.com/fanmail/fanmail/internal/bench"
	"github.com/fanmail/fanmail/internal/bench/command"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/internal/duration"
	"github.com/fanmail/fanmail/pkg/bucket"
	"github.com/fanmail/fanmail/pkg/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, program.Process{Args: os.Args[1:], Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Now: time.Now})
	stop()
	os.Exit(code)
}

// run runs the command line of a process and returns its exit code.
func run(ctx context.Context, p program.Process) int {
	root := &cobra.Command{
		Use: "bench", Short: "Measure Fanmail beside other designs", SilenceErrors: true, SilenceUsage: true,
		Long: "Measure Fanmail beside other designs. Each benchmark makes its own store and removes it at the end. It fails if what it\n" +
			"counts is not exact.",
	}
	root.SetFlagErrorFunc(program.FlagError)
	root.AddCommand(
		newLayouts(p), newFind(p), newCounts(p), newDormancy(p), newExpire(p), newIdentities(p), newPages(p), newSight(p), newStreams(p), newPlot(p), newSender(p),
		newStreamServer(p),
	)
	return program.Run(ctx, p, root)
}

func newLayouts(p program.Process) *cobra.Command {
	o := LayoutsOptions{Recipients: 1000, There: 150, Messages: 20, BucketSize: bucket.Capacity, Newest: 100, ReadsPerSend: 1, Redeliver: 0.01, Seed: 1}
	c := command.New(p, &cobra.Command{
		Use:   "layouts",
		Short: "Compare layouts of inboxes",
		Long: "Compare layouts of inboxes on the same store. Buckets is Fanmail's own, called without a server, and fanmail the whole\n" +
			"server over HTTP, which is not ranked. The others are recipes:\n\n" +
			"  on-read        a message is stored once, with its recipients; readers find it by an index\n" +
			"  on-write       a copy for each recipient\n" +
			"  counter        a counter for each recipient tells in which bucket a copy goes\n" +
			"  open-bucket    a copy goes into a bucket with room, or opens one\n" +
			"  newest-n       one bucket for each recipient, which keeps the newest --newest\n" +
			"  dated          a bucket for each recipient and day, which expires; there are 48 messages a day\n" +
			"  bucket-values  numbered buckets of one value each, which take a message once (embedded only)\n\n" +
			"All get the same messages, and take turns. Measure sending to all recipients until the answer, and until 100 of them have\n" +
			"read the message, one after the other; reading the newest 50 and 100 of 1,000 random inboxes, for the second time and\n" +
			"from the disk; the processor time of both; and the sizes. Then a child process sends messages and is killed half way\n" +
			"through the tenth, which is sent again to all. At last some deliveries are made again. Count what is shown twice and\n" +
			"what is not shown. A run fails if a layout does not return the newest messages, or if buckets shows a message twice\n" +
			"or not at all. The report ends with the rank of each layout.",
	}, func(ctx context.Context, e bench.Env) (Report, error) { return env{e}.Layouts(ctx, o) })
	c.Conclude = conclude
	c.Number(&o.Recipients, "recipients", 1, "number of recipients of each message")
	c.Number(&o.There, "there", 1, "number of messages in each inbox at the start, at least 3 times --bucket-size and at most 10,000")
	c.Number(&o.Messages, "messages", 1, "number of messages that are sent")
	c.Flags().StringSliceVar(&o.Layouts, "layouts", nil, "layouts to compare, separated by commas (default all of the store)")
	c.Number(&o.BucketSize, "bucket-size", 1, "number of messages in a full bucket")
	c.Number(&o.Newest, "newest", 1, "number of messages that newest-n keeps")
	c.Share(&o.Redeliver, "redeliver", "share of the deliveries that are made again, from 0 to 1")
	c.Flags().Float64Var(&o.ReadsPerSend, "reads-per-send", o.ReadsPerSend, "number of reads of the newest 50 messages for each delivery, in the cost")
	c.Flags().StringSliceVar(&o.Server, "server-process", nil, "names of the server's processes on this machine, whose processor time is read (default the server is asked)")
	c.Flags().Uint64Var(&o.Seed, "seed", o.Seed, "decides the messages, the inboxes that are read, and the deliveries that are made again")
	c.Check(func() error {
		const fullBuckets, most = 3, 10_000
		switch {
		case o.BucketSize > bucket.MaxCapacity:
			return fmt.Errorf("--bucket-size is %d: give at most %d", o.BucketSize, bucket.MaxCapacity)
		case o.There < fullBuckets*o.BucketSize || o.There > most:
			return fmt.Errorf("--there is %d: give %d, which is %d times --bucket-size, to %d", o.There, fullBuckets*o.BucketSize, fullBuckets, most)
		case o.ReadsPerSend < 0:
			return fmt.Errorf("--reads-per-send is %g: give 0 or more", o.ReadsPerSend)
		}
		return nil
	})
	return c.Command
}

func newFind(p program.Process) *cobra.Command {
	o := FindOptions{Entries: 100_000, Page: 50, Requests: 10, Walks: 3, Inboxes: 5000, Messages: 2, Rounds: 9, Seed: 1}
	c := command.New(p, &cobra.Command{
		Use:   "find",
		Short: "Measure finding messages by declared attributes",
		Long: "Measure finding messages in one inbox by declared attributes: one with four values, and one whose value differs in\n" +
			"each message. Their conditions match 1 in 10, 1 in 1,000 and 1 in 100,000 messages. The first page is all requests\n" +
			"until it is full. A run fails unless it finds exactly the messages that match, in their order.\n\n" +
			"Then measure appending messages of ten attributes to many inboxes while none, 1 and 10 of these are declared. On\n" +
			"MongoDB the figures include the bytes of each index.",
	}, func(ctx context.Context, e bench.Env) (Report, error) { return env{e}.Find(ctx, o) })
	c.Number(&o.Entries, "entries", 1, "number of messages in the inbox, at most 1,000,000")
	c.Number(&o.Page, "page", 1, "number of messages of a page")
	c.Number(&o.Requests, "requests", 1, "number of reads of each first page")
	c.Number(&o.Walks, "walks", 1, "number of reads of all pages")
	c.Flags().BoolVar(&o.Late, "late", false, "declare the attributes when half of the messages are in the inbox, and not before")
	c.Number(&o.Inboxes, "inboxes", 1, "number of inboxes that are appended to")
	c.Number(&o.Messages, "messages", 1, "number of messages that are appended to each in a round")
	c.Number(&o.Rounds, "rounds", 1, "number of rounds of appending; the figures are medians")
	c.Flags().Uint64Var(&o.Seed, "seed", o.Seed, "decides which messages match")
	c.Check(func() error {
		if o.Entries > MaxFindEntries {
			return fmt.Errorf("--entries is %d: give at most %d", o.Entries, MaxFindEntries)
		}
		return nil
	})
	return c.Command
}

func newCounts(p program.Process) *cobra.Command {
	o := CountsOptions{Users: client.MaxCountedUsers, Messages: 200, Requests: 200}
	c := command.New(p, &cobra.Command{
		Use:   "counts",
		Short: "Measure counting many inboxes",
		Long: "Measure requests for the counts of many inboxes: as they are, and when half of the messages have expired. Also\n" +
			"measure a page of 50 without and with whom its messages are for, and the same page again, without HTTP. On\n" +
			"MongoDB it counts the commands of each.\n\n" +
			"With --dormant, count the inboxes of so many dormant users first, each once, 1,000 by a request. The run fails\n" +
			"if one of them became active by that: if a record changed, or the next message to all does not skip all. With --flagged, mark messages instead of\n" +
			"letting half of them expire.",
	}, func(ctx context.Context, e bench.Env) (Report, error) { return env{e}.Counts(ctx, o) })
	c.Number(&o.Users, "users", 1, "number of inboxes that a request counts, at most 1,000")
	c.Number(&o.Messages, "messages", 1, "number of messages in each inbox")
	c.Number(&o.Requests, "requests", 1, "number of requests of each kind")
	c.Number(&o.Dormant, "dormant", 0, "number of dormant users whose inboxes are counted")
	c.Number(&o.Flagged, "flagged", 0, "number of buckets of each inbox in which a message is marked")
	return c.Command
}

func newPages(p program.Process) *cobra.Command {
	o := PagesOptions{Users: 1_000_000, Messages: 8, Pages: 1000}
	c := command.New(p, &cobra.Command{
		Use:   "pages",
		Short: "Measure pages that nothing has cached",
		Long: "Measure the newest pages of random inboxes in a large store: cold, when neither the store nor the system has cached\n" +
			"its files (not on MongoDB, nor on a file system in memory), and warm, when they were just read.",
	}, func(ctx context.Context, e bench.Env) (Report, error) { return env{e}.Pages(ctx, o) })
	c.Number(&o.Users, "users", 1, "number of inboxes")
	c.Number(&o.Messages, "messages", 1, "number of messages in each inbox")
	c.Number(&o.Pages, "pages", 1, "number of inboxes that are read")
	c.Check(func() error {
		if o.Pages > o.Users {
			return fmt.Errorf("--pages is %d, and there are %d inboxes: give at most as many", o.Pages, o.Users)
		}
		return nil
	})
	return c.Command
}

func newSight(p program.Process) *cobra.Command {
	o := SightOptions{Users: 1_000_000, Messages: 10, Published: 10_000, Letters: 1000, Requests: 50, Open: time.Minute}
	c := command.New(p, &cobra.Command{
		Use:   "sight",
		Short: "Measure what operators look at",
		Long: "Measure each call of the API and each page of the console that operators look at, while the store is full, and the\n" +
			"processor time that an open page costs.",
	}, func(ctx context.Context, e bench.Env) (Report, error) { return env{e}.Sight(ctx, o) })
	c.Number(&o.Users, "users", 1, "number of inboxes")
	c.Number(&o.Messages, "messages", 1, "number of messages in each inbox")
	c.Number(&o.Published, "published", 1, "number of stored messages")
	c.Number(&o.Letters, "letters", 0, "number of dead letters")
	c.Number(&o.Requests, "requests", 1, "number of requests for each page and call")
	c.Flags().Var((*duration.Value)(&o.Open), "open", "how long a page is kept open")
	return c.Command
}

func newDormancy(p program.Process) *cobra.Command {
	o := DormancyOptions{Followers: 100_000, Returns: 1000}
	population := trace.DefaultPopulation()
	c := command.New(p, &cobra.Command{
		Use:   "dormancy [FILE]",
		Short: "Compute what thresholds of dormancy cost",
		Long: "Measure what a copy, a rebuild and a page cost. With these prices, compute what policies of dormancy cost in the\n" +
			"second half of a recorded trace: thresholds of 1 to 365 days, the one that is cheapest in the first half, habits\n" +
			"of users that are learned in the first half, and the optimum with hindsight. FILE has a JSON object on each\n" +
			"line, a view or a message:\n\n" +
			"  {\"view\":\"ben\",\"time\":\"2026-01-02T15:04:05Z\"}\n" +
			"  {\"publish\":\"ann\",\"to\":[\"ben\",\"cy\"],\"time\":\"2026-01-02T15:04:05Z\"}\n\n" +
			"Without FILE the trace is synthetic:\n" + population.String() + ".\n" +
			"Costs are seconds of this machine while it does nothing else.",
	}, func(ctx context.Context, e bench.Env) (Report, error) { return env{e}.Dormancy(ctx, o) })
	c.Number(&o.Followers, "followers", 1, "size of the audience with which copies are priced")
	c.Number(&o.Returns, "returns", 1, "number of users with whom rebuilds are priced")
	c.Args = cobra.MaximumNArgs(1)
	measure := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if len(args) == 0 {
			o.Trace = trace.Synthetic(population)
		} else if o.Trace, err = readTrace(args[0]); err != nil {
			return err
		}
		return measure(cmd, nil)
	}
	return c.Command
}

// readTrace reads a recorded trace.
func readTrace(path string) (*trace.Trace, error) {
	const longest = 10 << 20
	file, err := os.Open(path) //nolint:gosec // the user names it
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	t := trace.New()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, longest)
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 || lines.Bytes()[0] == '#' {
			continue
		}
		if err := t.AddLine(lines.Bytes()); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(t.Inboxes) == 0 {
		return nil, fmt.Errorf("%s has no views and no messages", path)
	}
	t.Sort()
	return t, nil
}

func newExpire(p program.Process) *cobra.Command {
	o := ExpireOptions{Inboxes: 10_000, Messages: 100, Probes: 500, MaxAge: 10 * time.Second, Every: 10 * time.Second}
	c := command.New(p, &cobra.Command{
		Use:   "expire",
		Short: "Measure how fast messages expire",
		Long: "Measure how fast messages expire by age and are removed from inboxes, how much later than they should, what that\n" +
			"frees, and how long direct messages take meanwhile. publish_slack and clock_tolerance are two fifths of the age. The\n" +
			"raw limit is that of writing as many entries.",
	}, func(ctx context.Context, e bench.Env) (Report, error) { return env{e}.Expire(ctx, o) })
	c.Number(&o.Inboxes, "inboxes", 1, "number of inboxes")
	c.Number(&o.Messages, "messages", 1, "number of messages in each inbox")
	c.Number(&o.Probes, "probes", 1, "number of direct messages that are sent before")
	c.Flags().Var((*duration.Value)(&o.MaxAge), "max-age", "age at which messages expire")
	c.Flags().Var((*duration.Value)(&o.Every), "every", "from the beginning of a walk over all users to that of the next")
	c.Check(func() error {
		if o.MaxAge < time.Second || o.Every < time.Second {
			return fmt.Errorf("--max-age is %v and --every %v: give 1s or more", o.MaxAge, o.Every)
		}
		return nil
	})
	return c.Command
}

func newIdentities(p program.Process) *cobra.Command {
	o := IdentitiesOptions{Users: 20_000, Lookups: 500, Together: 1000}
	c := command.New(p, &cobra.Command{
		Use:   "identities",
		Short: "Measure claims and lookups of identities",
		Long:  "Measure claims of identities, 1,000 at a time, and lookups. Each user has an email address and a phone number.",
	}, func(ctx context.Context, e bench.Env) (Report, error) { return env{e}.Identities(ctx, o) })
	c.Number(&o.Users, "users", 1, "number of users")
	c.Number(&o.Lookups, "lookups", 1, "number of lookups of one identity; there are a tenth as many of several")
	c.Number(&o.Together, "together", 1, "number of identities in a lookup of several")
	return c.Command
}

func newStreams(p program.Process) *cobra.Command {
	o := StreamsOptions{
		Parts: streamParts, Streams: 1000, Rounds: 5, Probes: 500, Idle: 30 * time.Second, Rate: 2000, RateFor: 30 * time.Second,
		Churn: 1000, ChurnFor: time.Minute, Recipients: 100_000, Watchers: 1000, Pairs: 10, History: 100,
	}
	c := command.New(p, &cobra.Command{
		Use:   "streams",
		Short: "Measure open streams",
		Long: "Measure open streams. The server has a process of its own; the streams are connections of this process, over HTTP/1.1\n" +
			"without TLS. The parts are:\n\n" +
			"  open    memory of the server for each stream, and its processor time while nothing happens\n" +
			"  all     a message to all streams; also the same bytes, written to as many bare connections\n" +
			"  one     a message to one stream at a time, from sent and from accepted until its frame is there\n" +
			"  rate    --rate messages a second to one stream each; the run fails if one is lost or comes twice\n" +
			"  churn   --churn streams a second are closed and opened again after their position\n" +
			"  resume  what a client gets that comes back after few messages, after many, and with an unknown position\n" +
			"  beside  the other parts with a centrifuge server: server-sent events from a channel for each user, in memory\n" +
			"  fanout  fan-outs with and without watchers in turns, and direct messages to others meanwhile",
	}, func(ctx context.Context, e bench.Env) (Report, error) { return env{e}.Streams(ctx, o) })
	c.Flags().StringSliceVar(&o.Parts, "parts", o.Parts, "parts to measure, separated by commas")
	c.Number(&o.Streams, "streams", workers, "number of open streams, as many as the limit of open files allows")
	c.Number(&o.Rounds, "rounds", 1, "number of messages to all streams")
	c.Number(&o.Probes, "probes", 1, "number of messages to one stream at a time")
	c.Number(&o.Rate, "rate", 1, "number of messages a second to one stream each")
	c.Number(&o.Churn, "churn", 1, "number of streams that are closed and opened again in a second")
	c.Number(&o.Recipients, "recipients", 1, "number of recipients of a fan-out")
	c.Number(&o.Watchers, "watchers", 1, "number of these that have a stream open")
	c.Number(&o.Pairs, "pairs", 1, "number of pairs of fan-outs")
	c.Number(&o.History, "history", 1, "number of messages that centrifuge keeps in a channel")
	c.Flags().Var((*duration.Value)(&o.Idle), "idle", "how long idle streams are measured")
	c.Flags().Var((*duration.Value)(&o.RateFor), "rate-for", "how long messages are sent")
	c.Flags().Var((*duration.Value)(&o.ChurnFor), "churn-for", "how long streams are closed and opened again")
	c.Check(o.check)
	return c.Command
}

// newStreamServer is the process that streams starts.
func newStreamServer(p program.Process) *cobra.Command {
	cmd := &cobra.Command{Use: streamServerCommand + " NAME", Hidden: true, Args: program.Exactly("NAME")}
	settings := program.NewSettings(p, cmd)
	history := cmd.Flags().Int("history", 0, "number of messages that centrifuge keeps in a channel")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := settings.Load()
		if err != nil {
			return err
		}
		return ServeStreams(cmd.Context(), p, args[0], cfg, *history)
	}
	return cmd
}

func newPlot(p program.Process) *cobra.Command {
	return &cobra.Command{
		Use:   "plot FILE",
		Short: "Draw the report of a benchmark",
		Long: "Draw the report of a benchmark, of this program or of 'fanmail bench', which standard input has in JSON, into FILE\n" +
			"(.svg, .png or .pdf). A report of layouts becomes several files: x.svg becomes x-send.svg, x-read.svg, x-size.svg and,\n" +
			"if the processor time of the server is known, x-cost.svg.",
		Args: program.Exactly("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			var report Report
			if err := json.NewDecoder(p.Stdin).Decode(&report); err != nil {
				return fmt.Errorf("read a report: %w", err)
			}
			return draw(report, args[0])
		},
	}
}

// newSender is the process that layouts starts and kills.
func newSender(p program.Process) *cobra.Command {
	return &cobra.Command{
		Use: senderCommand, Hidden: true, Args: program.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return SendLayout(cmd.Context(), p.Stdin, p.Stdout, p.Now)
		},
	}
}
