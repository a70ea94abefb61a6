package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/bench"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/internal/duration"
	"github.com/fanmail/fanmail/internal/telemetry"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

func newBench(p program.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the speed of Fanmail on this machine",
		Long: "Measure the speed of Fanmail on this machine, and the raw limit of the store in the same run. Each benchmark\n" +
			"starts a server in this process, on a new store that it removes at the end: in a temporary folder, or with\n" +
			"--store mongodb in a new database, whose name begins with --mongodb-database. Each benchmark\n" +
			"counts its deliveries, and fails if a count is not exact. The server can be configured as any other: --help-all\n" +
			"of a benchmark lists the flags.",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return program.Usagef("say what to measure: fanout, burst, mixed, publish, read, rehydrate, expire, identities, counts, find, dormancy or layouts")
			}
			return unknownCommand(cmd, args[0])
		},
	}
	cmd.AddCommand(
		newBenchFanout(p), newBenchBurst(p), newBenchMixed(p), newBenchPublish(p), newBenchRead(p), newBenchRehydrate(p),
		newBenchExpire(p), newBenchIdentities(p), newBenchCounts(p), newBenchFind(p), newBenchDormancy(p),
		newBenchLayouts(p), newLayoutSender(p),
	)
	return cmd
}

func newBenchFanout(p program.Process) *cobra.Command {
	o := bench.FanoutOptions{Followers: []int{100_000}, Messages: 1}
	b := newBenchmark(p, &cobra.Command{
		Use:   "fanout",
		Short: "Measure the fan-out of messages by one author",
		Long: "Measure the fan-out of messages by one author, from publishing to done. The raw limit is the same number of\n" +
			"writes of the same size and nothing else: synced batches of Pebble, or guarded upserts on MongoDB. With\n" +
			"--dormant the raw limit is a scan of the followers and their states.",
		Example: "  fanmail bench fanout --followers 1000,10000,100000,1000000 --plot fanout.svg\n  fanmail bench fanout --followers 1000000 --dormant 0.95\n" +
			"  fanmail bench fanout --followers 100000 --topic=8",
	}, func(ctx context.Context, e bench.Env) (bench.Report, error) { return e.Fanout(ctx, o) })
	b.numbers(&o.Followers, "followers", "number of followers; give several sizes, separated by commas, to measure them one after the other")
	b.share(&o.Dormant, "dormant", "share of dormant followers, from 0 to 1")
	b.number(&o.Messages, "messages", "number of messages that are published at once")
	b.cmd.Flags().IntVar(&o.Topics, "topic", 0, "deliver to subscribers of that many topics, 1 to 8, instead of followers; several have 64 with those above them")
	b.cmd.Flags().Lookup("topic").NoOptDefVal = "1"
	b.checks = append(b.checks, func() error {
		if o.Topics < 0 || o.Topics > message.MaxTopics {
			return fmt.Errorf("--topic is %d: give a number from 1 to %d", o.Topics, message.MaxTopics)
		}
		return nil
	})
	b.cmd.Flags().IntVar(&o.There, "there", 0, "number of messages in each inbox at the start")
	return b.cmd
}

func newBenchBurst(p program.Process) *cobra.Command {
	o := bench.BurstOptions{Celebrities: 10, Messages: 2, Followers: 20_000, Overlap: 0.6, Named: 2}
	b := newBenchmark(p, &cobra.Command{
		Use:   "burst",
		Short: "Measure several authors who publish at the same time",
		Long: "Measure the fan-out of messages by several authors at the same time, with overlapping audiences. There are two\n" +
			"raw limits of the store: with one push for each entry, and with one push for all entries of an inbox. \"At most\"\n" +
			"is the number of entries in a push if each inbox is written as rarely as possible. The authors also follow each\n" +
			"other, and each message names a few recipients: measure how long these wait, too.",
		Example: "  fanmail bench burst --celebrities 2 --messages 10 --overlap 1\n  fanmail bench burst --celebrities 10 --graded --apart 50ms",
	}, func(ctx context.Context, e bench.Env) (bench.Report, error) { return e.Burst(ctx, o) })
	b.number(&o.Celebrities, "celebrities", "number of authors")
	b.number(&o.Messages, "messages", "number of messages that each author publishes at once")
	b.number(&o.Followers, "followers", "number of followers of the author with the most")
	b.cmd.Flags().BoolVar(&o.Graded, "graded", false, "give the nth author n times as many followers as the first")
	b.share(&o.Overlap, "overlap", "share of each audience that is the same users, from 0 to 1")
	b.cmd.Flags().IntVar(&o.Named, "named", o.Named, "number of recipients that each message names beside the followers")
	b.cmd.Flags().Var((*duration.Value)(&o.Apart), "apart", "time from one author to the next")
	return b.cmd
}

func newBenchMixed(p program.Process) *cobra.Command {
	o := bench.MixedOptions{Followers: 1_000_000, Medium: 2000, Probes: 200, Messages: 5, Named: 20, Celebrities: 20}
	b := newBenchmark(p, &cobra.Command{
		Use:   "mixed",
		Short: "Measure direct messages during a large fan-out",
		Long: "Measure messages during a fan-out to many followers: the time from the answer of a direct message until it can\n" +
			"be read, the time until a message to a medium audience is done, and the time of publishing. Then measure how long\n" +
			"recipients wait whom a message to the followers names, and celebrities who follow its author, beside direct\n" +
			"messages and the lap of the scan, from sending until the message is in the inbox.",
		Example: "  fanmail bench mixed --followers 200000\n  fanmail bench mixed --messages 50",
	}, func(ctx context.Context, e bench.Env) (bench.Report, error) { return e.Mixed(ctx, o) })
	b.number(&o.Followers, "followers", "number of followers of the celebrity")
	b.number(&o.Medium, "medium", "number of recipients in the medium audience")
	b.number(&o.Probes, "probes", "number of messages of each kind")
	b.cmd.Flags().IntVar(&o.Messages, "messages", o.Messages, "number of messages that name recipients, one after the other; 0 for none")
	b.number(&o.Named, "named", "number of recipients that each of them names")
	b.number(&o.Celebrities, "celebrities", "number of active users who follow the celebrity")
	return b.cmd
}

func newBenchPublish(p program.Process) *cobra.Command {
	o := bench.PublishOptions{Connections: []int{1, 16}, Messages: 5000}
	b := newBenchmark(p, &cobra.Command{
		Use:   "publish",
		Short: "Measure how many messages the server accepts",
		Long: "Measure how many direct messages the server accepts while it delivers them. The raw limit is the same number of\n" +
			"synced writes of one record each.",
		Example: "  fanmail bench publish --connections 1,4,16,64",
	}, func(ctx context.Context, e bench.Env) (bench.Report, error) { return e.Publish(ctx, o) })
	b.numbers(&o.Connections, "connections", "number of connections; give several numbers, separated by commas, to measure them one after the other")
	b.number(&o.Messages, "messages", "number of messages for each number of connections")
	return b.cmd
}

func newBenchRead(p program.Process) *cobra.Command {
	o := bench.ReadOptions{Entries: []int{100, 10_000}, Pages: 500}
	b := newBenchmark(p, &cobra.Command{
		Use:   "read",
		Short: "Measure reading inboxes of different sizes",
		Long: "Measure the time to read the newest page of an inbox, by the number of messages in the inbox: without and with a\n" +
			"view, of a page between two times, of a login of an active user, and of the first login of a day, which stores a\n" +
			"new horizon.",
		Example: "  fanmail bench read --entries 100,1000,10000,100000,1000000 --plot read.svg",
	}, func(ctx context.Context, e bench.Env) (bench.Report, error) { return e.Read(ctx, o) })
	b.numbers(&o.Entries, "entries", "number of messages in the inboxes that are read")
	b.number(&o.Pages, "pages", "number of reads and logins of each kind for each inbox")
	return b.cmd
}

func newBenchRehydrate(p program.Process) *cobra.Command {
	o := bench.RehydrateOptions{Users: 50, Authors: 1000, Missed: []int{10, 200_000}}
	b := newBenchmark(p, &cobra.Command{
		Use:   "rehydrate",
		Short: "Measure users who return after a year",
		Long: "Measure users who return after a year, one after the other: the time of the first page, and the time until the\n" +
			"inbox is rebuilt. The number of missed messages per author has a Zipf distribution. On MongoDB it also counts the\n" +
			"commands to the database during each return. With --topics each message also has one of the topics, and other\n" +
			"users return who find the same messages through subscriptions.",
		Example: "  fanmail bench rehydrate --missed 10,1000,100000 --plot rehydrate.svg\n" +
			"  fanmail bench rehydrate --missed 200000 --authors 20 --topics 20",
	}, func(ctx context.Context, e bench.Env) (bench.Report, error) { return e.Rehydrate(ctx, o) })
	b.number(&o.Users, "users", "number of returning users")
	b.number(&o.Authors, "authors", "number of authors that each user follows")
	b.numbers(&o.Missed, "missed", "number of missed messages")
	b.cmd.Flags().IntVar(&o.Topics, "topics", 0, "number of topics to which the same messages go, and to all of which other users are subscribed")
	b.checks = append(b.checks, func() error {
		if o.Topics < 0 {
			return fmt.Errorf("--topics is %d: give 0 or more", o.Topics)
		}
		return nil
	})
	return b.cmd
}

func newBenchExpire(p program.Process) *cobra.Command {
	o := bench.ExpireOptions{Inboxes: 10_000, Messages: 100, Probes: 500, MaxAge: 10 * time.Second, Every: 10 * time.Second}
	b := newBenchmark(p, &cobra.Command{
		Use:   "expire",
		Short: "Measure how fast messages expire",
		Long: "Measure how fast messages expire by age and are removed from inboxes, how much later than they should, what that\n" +
			"frees, and how long direct messages take meanwhile. publish_slack and clock_tolerance are two fifths of the age. The\n" +
			"raw limit is that of writing as many entries.",
		Example: "  fanmail bench expire --retention-rate 100000\n  fanmail bench expire --inboxes 1000 --messages 1000",
	}, func(ctx context.Context, e bench.Env) (bench.Report, error) { return e.Expire(ctx, o) })
	b.number(&o.Inboxes, "inboxes", "number of inboxes")
	b.number(&o.Messages, "messages", "number of messages in each inbox")
	b.number(&o.Probes, "probes", "number of direct messages that are sent before")
	b.cmd.Flags().Var((*duration.Value)(&o.MaxAge), "max-age", "age at which messages expire")
	b.cmd.Flags().Var((*duration.Value)(&o.Every), "every", "from the beginning of a walk over all users to that of the next")
	b.checks = append(b.checks, func() error {
		if o.MaxAge < time.Second || o.Every < time.Second {
			return fmt.Errorf("--max-age is %v and --every %v: give 1s or more", o.MaxAge, o.Every)
		}
		return nil
	})
	return b.cmd
}

func newBenchIdentities(p program.Process) *cobra.Command {
	o := bench.IdentitiesOptions{Users: 20_000, Lookups: 500, Together: 1000}
	b := newBenchmark(p, &cobra.Command{
		Use:   "identities",
		Short: "Measure claims and lookups of identities",
		Long: "Measure claims of identities, 1,000 at a time, and lookups. Each user has an email address and a phone number. On\n" +
			"MongoDB it also measures another layout beside it: a document for each user with all identities, and an index for\n" +
			"each kind, without the limit of 20. On a sharded cluster it reports how many shards a lookup asks.",
		Example: "  fanmail bench identities\n  fanmail bench identities --users 100000 --store mongodb --mongodb-uri mongodb://127.0.0.1:27017",
	}, func(ctx context.Context, e bench.Env) (bench.Report, error) { return e.Identities(ctx, o) })
	b.number(&o.Users, "users", "number of users")
	b.number(&o.Lookups, "lookups", "number of lookups of one identity; there are a tenth as many of several")
	b.number(&o.Together, "together", "number of identities in a lookup of several")
	return b.cmd
}

func newBenchCounts(p program.Process) *cobra.Command {
	o := bench.CountsOptions{Users: client.MaxCountedUsers, Messages: 200, Requests: 200}
	b := newBenchmark(p, &cobra.Command{
		Use:   "counts",
		Short: "Measure counting many inboxes",
		Long: "Measure requests for the counts of many inboxes: as they are, and when half of the messages have expired. Also\n" +
			"measure a page of 50 without and with whom its messages are for, and the same page again, without HTTP. On\n" +
			"MongoDB it counts the commands of each.\n\n" +
			"With --dormant, count the inboxes of so many dormant users first, each once, 1,000 by a request. The run fails\n" +
			"if one of them became active by that: if a record changed, or the next message to all does not skip all.",
		Example: "  fanmail bench counts\n  fanmail bench counts --dormant 1000000 --requests 20\n  fanmail bench counts --users 100 --store mongodb --mongodb-uri mongodb://127.0.0.1:27017",
	}, func(ctx context.Context, e bench.Env) (bench.Report, error) { return e.Counts(ctx, o) })
	b.number(&o.Users, "users", "number of inboxes that a request counts, at most 1,000")
	b.number(&o.Messages, "messages", "number of messages in each inbox")
	b.number(&o.Requests, "requests", "number of requests of each kind")
	b.cmd.Flags().IntVar(&o.Dormant, "dormant", 0, "number of dormant users whose inboxes are counted")
	b.checks = append(b.checks, func() error {
		if o.Dormant < 0 {
			return fmt.Errorf("--dormant is %d: give 0 or more", o.Dormant)
		}
		if o.Users > client.MaxCountedUsers {
			return fmt.Errorf("--users is %d: give at most %d", o.Users, client.MaxCountedUsers)
		}
		return nil
	})
	return b.cmd
}

func newBenchFind(p program.Process) *cobra.Command {
	o := bench.FindOptions{Entries: 100_000, Page: 50, Requests: 10, Walks: 3, Inboxes: 5000, Messages: 2, Rounds: 9, Seed: 1}
	b := newBenchmark(p, &cobra.Command{
		Use:   "find",
		Short: "Measure finding messages by declared attributes",
		Long: "Measure finding messages in one inbox by declared attributes: one with four values, and one whose value differs in\n" +
			"each message. Their conditions match 1 in 10, 1 in 1,000 and 1 in 100,000 messages. The first page is all requests\n" +
			"until it is full. A run fails unless it finds exactly the messages that match, in their order.\n\n" +
			"Then measure appending messages of ten attributes to many inboxes while none, 1 and 10 of these are declared.\n\n" +
			"Beside both it measures another layout: a record for each message, with an index for each attribute. On MongoDB\n" +
			"the figures include the bytes of each index.",
		Example: "  fanmail bench find\n  fanmail bench find --late --entries 20000\n" +
			"  fanmail bench find --store mongodb --mongodb-uri mongodb://127.0.0.1:27017",
	}, func(ctx context.Context, e bench.Env) (bench.Report, error) { return e.Find(ctx, o) })
	b.number(&o.Entries, "entries", "number of messages in the inbox, at most 1,000,000")
	b.number(&o.Page, "page", "number of messages of a page")
	b.number(&o.Requests, "requests", "number of reads of each first page")
	b.number(&o.Walks, "walks", "number of reads of all pages")
	b.cmd.Flags().BoolVar(&o.Late, "late", false, "declare the attributes when half of the messages are in the inbox, and not before")
	b.number(&o.Inboxes, "inboxes", "number of inboxes that are appended to")
	b.number(&o.Messages, "messages", "number of messages that are appended to each in a round")
	b.number(&o.Rounds, "rounds", "number of rounds of appending; the figures are medians")
	b.cmd.Flags().Uint64Var(&o.Seed, "seed", o.Seed, "decides which messages match")
	b.checks = append(b.checks, func() error {
		if o.Entries > bench.MaxFindEntries {
			return fmt.Errorf("--entries is %d: give at most %d", o.Entries, bench.MaxFindEntries)
		}
		return nil
	})
	return b.cmd
}

// benchmark is a command that measures something.
type benchmark struct {
	cmd    *cobra.Command
	output output
	runs   int
	body   int
	dir    string
	plot   string
	checks []func() error
}

// newBenchmark adds the flags and the run function that all benchmarks share.
func newBenchmark(p program.Process, cmd *cobra.Command, measure func(context.Context, bench.Env) (bench.Report, error)) *benchmark {
	b := &benchmark{cmd: cmd, output: output{w: p.Stdout}, runs: 1, body: 200}
	cmd.Args = program.Exactly()
	s := program.NewSettings(p, cmd, "store", "mongodb.uri", "mongodb.database", "partitions")
	b.output.addJSON(cmd, "print the figures as JSON")
	b.number(&b.runs, "runs", "number of runs; the figures are medians")
	cmd.Flags().IntVar(&b.body, "body", b.body, "length of a message's body in bytes")
	cmd.Flags().StringVar(&b.dir, "dir", "", "folder, on the disk to be measured, for temporary folders (default the system's)")
	cmd.Flags().StringVar(&b.plot, "plot", "", "draw the figures into this file (.svg, .png or .pdf)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for _, check := range b.checks {
			if err := check(); err != nil {
				return program.Usage(err)
			}
		}
		if ext := filepath.Ext(b.plot); b.plot != "" && ext != ".svg" && ext != ".png" && ext != ".pdf" {
			return program.Usagef("--plot is %q: give a file that ends in .svg, .png or .pdf", b.plot)
		}
		cfg, err := s.Load()
		if err != nil {
			return err
		}
		logger, err := telemetry.NewLogger(telemetry.LogOptions{Level: "warn", Format: cfg.Log.Format, Writer: p.Stderr, Now: p.Now})
		if err != nil {
			return err
		}
		env := bench.Env{Config: cfg, Dir: b.dir, Logger: logger, Now: p.Now, Body: b.body, Tell: func(what string) {
			_, _ = fmt.Fprintln(p.Stderr, what) // failing to show progress is not an error
		}}
		if env.Dir == "" {
			env.Dir = os.TempDir()
		}
		report, err := bench.Run(b.runs, func() (bench.Report, error) { return measure(cmd.Context(), env) })
		if err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		if b.plot != "" {
			if err := report.Plot(b.plot); err != nil {
				return err
			}
		}
		return b.output.print(report, func(w io.Writer) error { return printReport(w, report) })
	}
	return b
}

// number adds a flag for a number that is at least 1.
func (b *benchmark) number(value *int, name, usage string) {
	b.cmd.Flags().IntVar(value, name, *value, usage)
	b.checks = append(b.checks, func() error {
		if *value < 1 {
			return fmt.Errorf("--%s is %d: give 1 or more", name, *value)
		}
		return nil
	})
}

// numbers adds a flag for several numbers that are at least 1.
func (b *benchmark) numbers(values *[]int, name, usage string) {
	b.cmd.Flags().IntSliceVar(values, name, *values, usage)
	b.checks = append(b.checks, func() error {
		for _, value := range *values {
			if value < 1 {
				return fmt.Errorf("--%s has %d: give 1 or more", name, value)
			}
		}
		return nil
	})
}

// share adds a flag for a number from 0 to 1.
func (b *benchmark) share(value *float64, name, usage string) {
	b.cmd.Flags().Float64Var(value, name, *value, usage)
	b.checks = append(b.checks, func() error {
		if *value < 0 || *value > 1 {
			return fmt.Errorf("--%s is %g: give a number from 0 to 1", name, *value)
		}
		return nil
	})
}

// printReport prints a line for each figure, under its case.
func printReport(w io.Writer, r bench.Report) error {
	runs := ""
	if r.Runs > 1 {
		runs = fmt.Sprintf(", medians of %d runs, with the lowest and the highest", r.Runs)
	}
	if err := printf(w, "%s, store %s%s\n", r.Benchmark, r.Store, runs); err != nil {
		return err
	}
	for _, f := range r.Facts {
		if err := printf(w, "  %-22s %s\n", f.Name, f.Value); err != nil {
			return err
		}
	}
	for _, row := range r.Rows {
		if err := printf(w, "%s\n", row.Case); err != nil {
			return err
		}
		for i, f := range row.Figures {
			unit := f.Unit
			if !f.Told() {
				unit = ""
			}
			spread := ""
			if f.Told() && row.Low != nil {
				spread = fmt.Sprintf(" (%s to %s)", figure(row.Low[i].Value), figure(row.High[i].Value))
			}
			if err := printf(w, "  %-22s %12s %s%s\n", f.Name, figure(f.Value), unit, spread); err != nil {
				return err
			}
		}
	}
	for _, c := range r.Conclusions {
		if err := printf(w, "%s: %s\n", c.Name, c.Value); err != nil {
			return err
		}
	}
	return nil
}

// figure formats a number with its significant digits.
func figure(value float64) string {
	switch {
	case math.IsNaN(value):
		return "not told"
	case value >= 1000:
		return count(int64(value))
	case value >= 100:
		return strconv.FormatFloat(value, 'f', 0, 64)
	case value == math.Trunc(value):
		return strconv.FormatFloat(value, 'f', 0, 64)
	default:
		return strconv.FormatFloat(value, 'f', 2, 64)
	}
}
