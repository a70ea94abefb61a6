//go:build mongodb

package browser_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/testenv"
)

// press clicks on something, and counts it. The page may change what it shows at any time, so it finds and clicks in one step.
func (b *browser) press(clicks *int, what string) {
	b.t.Helper()
	b.shows(fmt.Sprintf("document.querySelector(%q)", what))
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.querySelector(%q).click()", what)))
	*clicks++
}

// TestOperatorsGetAnswersByClicks asks the console of a deployment with roles apart the five questions of docs/console.md, and counts the clicks.
func TestOperatorsGetAnswersByClicks(t *testing.T) {
	t.Parallel()
	uri, database := testenv.MongoDB(t)
	nats, err := natsserver.Start(t.Context(), natsserver.Options{Dir: t.TempDir(), Addr: "127.0.0.1:0"})
	require.NoError(t, err)
	t.Cleanup(nats.Stop)
	cfg := config.Default()
	cfg.Addr, cfg.Store, cfg.MongoDB.URI, cfg.MongoDB.Database, cfg.NATS.URL = "127.0.0.1:0", config.StoreMongoDB, config.URL(uri), database, config.URL(nats.ClientURL())
	cfg.NATS.MaxPublished, cfg.NATS.MaxFanout, cfg.NATS.MaxLogin, cfg.NATS.MaxDLQ = 16*config.MiB, 16*config.MiB, 16*config.MiB, 16*config.MiB
	require.NoError(t, app.Init(t.Context(), cfg, false, zerolog.Nop()))
	var broken, slow atomic.Bool
	start := func(role app.Role) *app.App {
		a := app.New(cfg, app.Options{Roles: []app.Role{role}, Logger: zerolog.Nop(), Wrap: func(p app.Parts) app.Parts {
			if role == app.FanoutWorker {
				p.Messages = patient{p.Messages, &broken, &slow}
			}
			return p
		}})
		require.NoError(t, a.Start(t.Context()))
		return a
	}
	stop := func(a *app.App) { require.NoError(t, a.Stop(context.WithoutCancel(t.Context()))) }
	publisher, rehydrator := start(app.Publisher), start(app.Rehydrator)
	defer stop(publisher)
	defer stop(rehydrator)
	publishing, err := client.New(publisher.URL(), client.Options{})
	require.NoError(t, err)
	reading, err := client.New(rehydrator.URL(), client.Options{})
	require.NoError(t, err)
	require.NoError(t, reading.SetSeen(t.Context(), "ben", time.Now()))
	require.NoError(t, reading.SetSeen(t.Context(), "zoe", time.Now().Add(-365*24*time.Hour)))
	draft := message.Draft{From: "ann", To: []message.UserID{"ben", "zoe"}, Body: "x"}
	receipt, err := publishing.Publish(t.Context(), draft, "")
	require.NoError(t, err)
	id := receipt.ID.String()

	b, console := openBrowser(t), rehydrator.URL()+"/console/"
	overview := func() { b.do(chromedp.Navigate(console)) }
	overview()
	b.shows(`document.querySelector("#health .bad[data-kind=no-fanout-worker]")`)

	// Which message is slow, and why? One click: its link stays under the pointer while the page moves.
	at := value[[]float64](b, `(() => { const { x, y } = document.querySelector("#underway article a").getBoundingClientRect(); return [x + 9, y + 9]; })()`)
	button := func(event input.DispatchMouseEventType) {
		b.do(chromedp.MouseEvent(event, at[0], at[1], chromedp.ButtonLeft, chromedp.ClickCount(1)))
	}
	button(input.DispatchMouseEventTypeMousePressed)
	next, err := publishing.Publish(t.Context(), draft, "")
	require.NoError(t, err)
	value[chromedp.Void](b, fmt.Sprintf(`new Promise((done) => {
		const source = new EventSource(location.href);
		source.addEventListener("panel", ({ data }) => { if (data.includes(%q)) { source.close(); done(); } });
	})`, next.ID), chromedp.EvalAwaitPromise)
	button(input.DispatchMouseEventTypeMouseReleased)
	b.says("#message", "pending, waits for worker")

	why := 0 // Why has a user not got a message?
	explain := func(user string) {
		b.press(&why, "#message a[href^='/console/why']")
		b.shows(`document.querySelector("[name=user]")`)
		b.do(chromedp.SetValue("[name=user]", user))
		b.press(&why, "#whose button")
	}
	explain("ben")
	b.says("#why", "has not been planned")

	broken.Store(true)
	overview()
	b.shows(`document.querySelector("#health .bad")`)
	worker := start(app.FanoutWorker)
	b.says("#health", "there are dead letters (2)")
	b.shows(`!document.querySelector("#health .bad")`)
	dead := 0 // What is dead, and why?
	b.press(&dead, "#health a[href='/console/dead-letters']")
	b.says("#letters", "corrupt")
	b.says("#letters", id)
	broken.Store(false)
	b.do(chromedp.Click("[aria-label='Redrive 1']"))
	b.says("#settled", "1 redriven.")
	b.do(chromedp.Navigate(console+"dead-letters"), chromedp.Click("#letters a[href*='do=redrive']"))
	b.says("#confirm", "1 dead letter matches")
	b.do(chromedp.Click("#confirm button"))
	b.says("#settled", "1 redriven.")
	b.do(chromedp.Navigate(console + "messages/" + id))
	b.says("#message", "done, lane direct: 1 delivered, 1 skipped")
	explain("zoe")
	b.says("#why", "dormant")

	slow.Store(true)
	overview()
	var enough atomic.Bool
	var senders sync.WaitGroup
	senders.Go(func() {
		for err := error(nil); err == nil && !enough.Load(); { // none is broken off: it would wait until it is resumed
			_, err = publishing.Publish(context.WithoutCancel(t.Context()), draft, "")
		}
	})
	b.shows(`[...document.querySelectorAll("#lanes td:last-child")].some((cell) => cell.innerText.includes("≈"))`) // When is the backlog gone? No click.
	slow.Store(false)
	enough.Store(true)
	senders.Wait()
	b.says("#underway", "No message")

	saved := 0 // What does dormancy save?
	b.shows(`document.querySelector("#health").innerText.includes("Delivered, ever")`)
	b.press(&saved, "nav a[href='/console/dormancy']")
	b.says("#dormancy", "for dormant users")
	require.Equal(t, []int{4, 1, 1}, []int{why, dead, saved}, "docs/console.md says how many clicks an answer needs")

	overview()
	stop(worker)
	b.shows(`document.querySelector("#health .bad[data-kind=no-fanout-worker]")`)
	require.Zero(t, b.violations())
}
