package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/bench"
	"github.com/fanmail/fanmail/internal/bench/command"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/internal/duration"
	"github.com/fanmail/fanmail/pkg/message"
)

func newBench(p program.Process) *cobra.Command {
	return withCommands(&cobra.Command{
		Use:   "bench",
		Short: "Measure the speed of Fanmail on this machine",
		Long: "Measure the speed of Fanmail on this machine, and the raw limit of the store in the same run. Each benchmark\n" +
			"starts a server in this process, on a new store that it removes at the end: in a temporary folder, or with\n" +
			"--store mongodb in a new database, whose name begins with --mongodb-database. Each benchmark\n" +
			"counts its deliveries, and fails if a count is not exact. The server can be configured as any other: --help-all\n" +
			"of a benchmark lists the flags.",
	}, newBenchFanout(p), newBenchBurst(p), newBenchMixed(p), newBenchPublish(p), newBenchRead(p), newBenchRehydrate(p))
}

func newBenchFanout(p program.Process) *cobra.Command {
	o := bench.FanoutOptions{Followers: []int{100_000}, Messages: 1, Rounds: 1, Authors: 1}
	c := command.New(p, &cobra.Command{
		Use:   "fanout",
		Short: "Measure the fan-out of messages to many",
		Long: "Measure the fan-out of messages to many, from publishing to done. The raw limit is the same number of\n" +
			"writes of the same size and nothing else: synced batches of Pebble, or guarded upserts on MongoDB. A second one\n" +
			"for Pebble, \"raw tables\", writes the same as sorted files that Pebble takes over. With --dormant the raw limit is\n" +
			"a scan of the followers and their states.",
		Example: "  fanmail bench fanout --followers 1000,10000,100000,1000000\n  fanmail bench fanout --followers 1000000 --dormant 0.95\n" +
			"  fanmail bench fanout --followers 100000 --topic=8\n  fanmail bench fanout --rounds 30 --authors 4",
	}, func(ctx context.Context, e bench.Env) (bench.Report, error) { return e.Fanout(ctx, o) })
	c.Numbers(&o.Followers, "followers", "number of followers; give several sizes, separated by commas, to measure them one after the other")
	c.Share(&o.Dormant, "dormant", "share of dormant followers, from 0 to 1")
	c.Number(&o.Messages, "messages", 1, "number of messages that are published at once")
	c.Number(&o.Topics, "topic", 0, "deliver to subscribers of that many topics, 1 to 8, instead of followers; several have 64 with those above them")
	c.Flags().Lookup("topic").NoOptDefVal = "1"
	c.Check(func() error {
		if o.Topics > message.MaxTopics {
			return fmt.Errorf("--topic is %d: give at most %d", o.Topics, message.MaxTopics)
		}
		return nil
	})
	c.Number(&o.There, "there", 0, "number of messages in each inbox at the start")
	c.Number(&o.Rounds, "rounds", 1, "number of messages to the followers, one after another, each when the store has settled (embedded store)")
	c.Number(&o.Authors, "authors", 1, "number of authors who publish in each of the rounds, at most 16; the followers are divided evenly among them")
	c.Check(func() error {
		if o.Rounds > 1 && (o.Messages > 1 || o.Topics > 0 || o.There > 0 || o.Dormant > 0) {
			return errors.New("--rounds are of one message each to active followers: leave --messages, --topic, --there and --dormant out")
		}
		if o.Authors > 1 && o.Rounds <= 1 {
			return fmt.Errorf("--authors is %d, and only rounds have several authors: give --rounds of 2 or more, or leave --authors out", o.Authors)
		}
		least := slices.Min(o.Followers)
		if most := min(16, least); o.Authors > most {
			return fmt.Errorf("--authors is %d: give at most %d", o.Authors, most)
		}
		if o.Dormant > 0 && (o.Messages > 1 || o.There > 0) {
			return errors.New("--dormant compares one message with a scan of the followers: leave --messages and --there out")
		}
		if o.Dormant > 0 && o.Dormant*float64(least) < 1 {
			return fmt.Errorf("--dormant is %g: none of %d --followers is dormant", o.Dormant, least)
		}
		return nil
	})
	return c.Command
}

func newBenchBurst(p program.Process) *cobra.Command {
	o := bench.BurstOptions{Celebrities: 10, Messages: 2, Followers: 20_000, Overlap: 0.6}
	c := command.New(p, &cobra.Command{
		Use:   "burst",
		Short: "Measure several authors who publish at the same time",
		Long: "Measure the fan-out of messages by several authors at the same time, with overlapping audiences. There are two\n" +
			"raw limits of the store: with one push for each entry, and with one push for all entries of an inbox. \"At most\"\n" +
			"is the number of entries in a push if each inbox is written as rarely as possible.",
		Example: "  fanmail bench burst --celebrities 2 --messages 10 --overlap 1\n  fanmail bench burst --celebrities 10 --graded --apart 50ms",
	}, func(ctx context.Context, e bench.Env) (bench.Report, error) { return e.Burst(ctx, o) })
	c.Number(&o.Celebrities, "celebrities", 1, "number of authors")
	c.Number(&o.Messages, "messages", 1, "number of messages that each author publishes at once")
	c.Number(&o.Followers, "followers", 1, "number of followers of the author with the most")
	c.Flags().BoolVar(&o.Graded, "graded", false, "give the nth author n times as many followers as the first")
	c.Share(&o.Overlap, "overlap", "share of each audience that is the same users, from 0 to 1")
	c.Flags().Var((*duration.Value)(&o.Apart), "apart", "time from one author to the next")
	c.Check(func() error {
		if o.Apart < 0 {
			return fmt.Errorf("--apart is %s: give a time that is not negative", o.Apart)
		}
		return nil
	})
	return c.Command
}

func newBenchMixed(p program.Process) *cobra.Command {
	o := bench.MixedOptions{Followers: 1_000_000, Medium: 2000, Probes: 200}
	c := command.New(p, &cobra.Command{
		Use:   "mixed",
		Short: "Measure direct messages during a large fan-out",
		Long: "Measure messages during a fan-out to many followers: the time from the answer of a direct message until it can\n" +
			"be read, also beside messages to a thousand followers each, and while messages to a medium audience are fanned out\n" +
			"as well; the time until a message to the medium audience is done; and the time of publishing.",
		Example: "  fanmail bench mixed --followers 200000",
	}, func(ctx context.Context, e bench.Env) (bench.Report, error) { return e.Mixed(ctx, o) })
	c.Number(&o.Followers, "followers", 1, "number of followers of the celebrity")
	c.Number(&o.Medium, "medium", 1, "number of recipients in the medium audience, all of them followers of the celebrity")
	c.Number(&o.Probes, "probes", 1, "number of messages of each kind")
	c.Check(func() error {
		if o.Medium > o.Followers {
			return fmt.Errorf("--medium is %d: give at most as many as --followers, %d", o.Medium, o.Followers)
		}
		return nil
	})
	return c.Command
}

func newBenchPublish(p program.Process) *cobra.Command {
	o := bench.PublishOptions{Connections: []int{1, 16}, Messages: 5000}
	c := command.New(p, &cobra.Command{
		Use:   "publish",
		Short: "Measure how many messages the server accepts",
		Long: "Measure how many direct messages the server accepts while it delivers them. The raw limit is the same number of\n" +
			"synced writes of one record each.",
		Example: "  fanmail bench publish --connections 1,4,16,64",
	}, func(ctx context.Context, e bench.Env) (bench.Report, error) { return e.Publish(ctx, o) })
	c.Numbers(&o.Connections, "connections", "number of connections; give several numbers, separated by commas, to measure them one after the other")
	c.Number(&o.Messages, "messages", 1, "number of messages for each number of connections")
	return c.Command
}

func newBenchRead(p program.Process) *cobra.Command {
	o := bench.ReadOptions{Entries: []int{100, 10_000}, Pages: 500}
	c := command.New(p, &cobra.Command{
		Use:   "read",
		Short: "Measure reading inboxes of different sizes",
		Long: "Measure the time to read the newest page of an inbox, by the number of messages in the inbox: without and with a\n" +
			"view, of a page between two times, of a login of an active user, and of the first login of a day, which stores a\n" +
			"new horizon.",
		Example: "  fanmail bench read --entries 100,1000,10000,100000,1000000",
	}, func(ctx context.Context, e bench.Env) (bench.Report, error) { return e.Read(ctx, o) })
	c.Numbers(&o.Entries, "entries", "number of messages in the inboxes that are read")
	c.Number(&o.Pages, "pages", 1, "number of reads and logins of each kind for each inbox")
	return c.Command
}

func newBenchRehydrate(p program.Process) *cobra.Command {
	o := bench.RehydrateOptions{Users: 50, Authors: 1000, Missed: []int{10, 200_000}}
	c := command.New(p, &cobra.Command{
		Use:   "rehydrate",
		Short: "Measure users who return after a year",
		Long: "Measure users who return after a year, one after the other: the time of the first page, and the time until the\n" +
			"inbox is rebuilt. The number of missed messages per author has a Zipf distribution. On MongoDB it also counts the\n" +
			"commands to the database during each return. With --topics each message also has one of the topics, and other\n" +
			"users return who find the same messages through subscriptions.",
		Example: "  fanmail bench rehydrate --missed 10,1000,100000\n  fanmail bench rehydrate --missed 200000 --authors 20 --topics 20",
	}, func(ctx context.Context, e bench.Env) (bench.Report, error) { return e.Rehydrate(ctx, o) })
	c.Number(&o.Users, "users", 1, "number of returning users")
	c.Number(&o.Authors, "authors", 1, "number of authors that each user follows")
	c.Numbers(&o.Missed, "missed", "number of missed messages")
	c.Number(&o.Topics, "topics", 0, "number of topics to which the same messages go, and to all of which other users are subscribed")
	return c.Command
}
