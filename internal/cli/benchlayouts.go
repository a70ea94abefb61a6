package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fanmail/fanmail/internal/bench"
	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/bucket"
)

func newBenchLayouts(p program.Process) *cobra.Command {
	o := bench.LayoutsOptions{Recipients: 1000, There: 150, Messages: 20, BucketSize: bucket.Capacity, Newest: 100, ReadsPerSend: 1, Redeliver: 0.01, Seed: 1}
	b := newBenchmark(p, &cobra.Command{
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
			"or not at all. The report ends with the rank of each layout. --plot x.svg draws x-send.svg, x-read.svg, x-size.svg\n" +
			"and, if the processor time of the server is known, x-cost.svg.",
		Example: "  fanmail bench layouts --recipients 10000 --plot layouts.svg\n  fanmail bench layouts --layouts on-read,on-write,buckets\n" +
			"  fanmail bench layouts --store mongodb --mongodb-uri mongodb://127.0.0.1:27017",
	}, func(ctx context.Context, e bench.Env) (bench.Report, error) { return e.Layouts(ctx, o) })
	b.number(&o.Recipients, "recipients", "number of recipients of each message")
	b.number(&o.There, "there", "number of messages in each inbox at the start, at least 3 times --bucket-size and at most 10,000")
	b.number(&o.Messages, "messages", "number of messages that are sent")
	b.cmd.Flags().StringSliceVar(&o.Layouts, "layouts", nil, "layouts to compare, separated by commas (default all of the store)")
	b.number(&o.BucketSize, "bucket-size", fmt.Sprintf("number of messages in a full bucket, at most %d", bucket.MaxCapacity))
	b.number(&o.Newest, "newest", "number of messages that newest-n keeps")
	b.share(&o.Redeliver, "redeliver", "share of the deliveries that are made again, from 0 to 1")
	b.cmd.Flags().Float64Var(&o.ReadsPerSend, "reads-per-send", o.ReadsPerSend, "number of reads of the newest 50 messages for each delivery, in the cost")
	b.cmd.Flags().StringSliceVar(&o.Server, "server-process", nil, "names of the server's processes on this machine, whose processor time is read (default the server is asked)")
	b.cmd.Flags().Uint64Var(&o.Seed, "seed", o.Seed, "decides the messages, the inboxes that are read, and the deliveries that are made again")
	b.checks = append(b.checks, func() error {
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
	return b.cmd
}

// newLayoutSender is the process that bench layouts starts and kills.
func newLayoutSender(p program.Process) *cobra.Command {
	return &cobra.Command{
		Use: bench.SenderCommand[1], Hidden: true, Args: program.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.SendLayout(cmd.Context(), p.Stdin, p.Stdout, p.Now)
		},
	}
}
