package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/fanmail/fanmail/internal/cli/program"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// watchEvery is how often the command prints the progress of a message. Tests do not wait for a second.
var watchEvery = time.Second

// watchWindow is the number of intervals over which the rate is averaged, so that a short pause does not look like an end.
const watchWindow = 5

// watched is the progress of a message at one moment.
type watched struct {
	client.Fanout
	// Rate is the number of recipients per second in the last watchWindow intervals.
	Rate float64 `json:"rate"`
	// SecondsLeft is the estimated remaining time; nil while there is no estimate.
	SecondsLeft *float64 `json:"seconds_left,omitempty"`
}

// watch prints the progress of a message every second until it is done, and returns the status. --timeout ends it.
func watch(ctx context.Context, p program.Process, out *output, c *client.Client, id message.ID, limit *timeout) (client.Status, error) {
	ctx, cancel := limit.within(ctx)
	defer cancel()
	status, err := watchDone(ctx, p, out, c, id)
	return status, limit.explain(ctx, id, status, err)
}

// watchDone is watch without an end. With an error it returns the last status.
func watchDone(ctx context.Context, p program.Process, out *output, c *client.Client, id message.ID) (client.Status, error) {
	status, err := c.Estimate(ctx, id)
	if err != nil {
		return client.Status{}, err
	}
	audience := status.Fanout.Audience
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	var samples []sample
	for status.Fanout.State != message.StateDone {
		samples = append(samples, sample{p.Now(), status.Fanout.Recipients})
		if len(samples) > watchWindow+1 {
			samples = samples[1:]
		}
		w := observe(status.Fanout, audience, samples)
		if err := out.print(w, func(to io.Writer) error { return printWatched(to, w) }); err != nil {
			return status, err
		}
		select {
		case <-ctx.Done():
			return status, ctx.Err()
		case <-ticker.C:
		}
		now, err := c.Status(ctx, id)
		if err != nil {
			return status, err
		}
		status = now
	}
	return status, nil
}

// sample is the number of handled recipients at a time.
type sample struct {
	at      time.Time
	handled int64
}

// observe returns the progress that follows from the samples. The last sample is the newest.
func observe(f client.Fanout, audience int64, samples []sample) watched {
	w := watched{Fanout: f}
	w.Audience = max(audience, f.Recipients)
	first, last := samples[0], samples[len(samples)-1]
	if passed := last.at.Sub(first.at).Seconds(); passed > 0 {
		w.Rate = float64(last.handled-first.handled) / passed
	}
	if w.Rate > 0 && audience > f.Recipients {
		left := float64(audience-f.Recipients) / w.Rate
		w.SecondsLeft = &left
	}
	return w
}

func printWatched(to io.Writer, w watched) error {
	left := ""
	if w.SecondsLeft != nil {
		left = fmt.Sprintf(", about %s to go", seconds(time.Duration(*w.SecondsLeft*float64(time.Second))))
	}
	return printf(to, "%-8s %s of about %s, %s a second%s%s\n", w.State, count(w.Recipients), count(w.Audience), count(int64(w.Rate)), left, waits(w.Fanout))
}
