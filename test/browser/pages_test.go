//go:build long

package browser_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/config"
	"github.com/fanmail/fanmail/internal/app"
	"github.com/fanmail/fanmail/internal/app/embedded"
	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
)

// axe returns the source of axe-core, which finds what people cannot see, read or reach.
func axe(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, command := range [][]string{{"npm", "pack", "axe-core@4.14.1"}, {"tar", "-xzf", "axe-core-4.14.1.tgz"}} {
		run := exec.CommandContext(t.Context(), command[0], command[1:]...)
		run.Dir = dir
		out, err := run.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	source, err := os.ReadFile(filepath.Join(dir, "package", "axe.min.js"))
	require.NoError(t, err)
	return string(source)
}

// serious returns what axe-core finds on the page that is open and calls serious or critical.
func (b *browser) serious() []string {
	b.t.Helper()
	return value[[]string](b, `axe.run().then((found) => found.violations.filter((v) => ["serious", "critical"].includes(v.impact))
		.map((v) => v.id + ": " + v.help + " " + v.nodes.map((node) => node.html)))`, chromedp.EvalAwaitPromise)
}

// TestEveryPage opens each page of the console by day and by night, checks it with axe-core, and makes the pictures in docs/console.
func TestEveryPage(t *testing.T) {
	t.Parallel()
	var broken, slow atomic.Bool
	cfg := config.Default()
	cfg.Addr, cfg.Data, cfg.Auth.TokensFile = "127.0.0.1:0", t.TempDir(), tokens(t)
	server := app.New(cfg, app.Options{Embedded: embedded.Engines{}, Logger: zerolog.Nop(), Wrap: func(p app.Parts) app.Parts {
		p.Messages = patient{p.Messages, &broken, &slow}
		return p
	}})
	require.NoError(t, server.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, server.Stop(context.WithoutCancel(t.Context()))) })
	c, err := client.New(server.URL(), client.Options{Token: func(context.Context) (string, error) { return operator, nil }})
	require.NoError(t, err)
	to := []message.UserID{"ben"}
	for n := range 60 {
		user := message.UserID(fmt.Sprintf("fan-%02d", n))
		require.NoError(t, c.SetSeen(t.Context(), user, time.Now().Add(-time.Duration(n)*24*time.Hour)))
		to = append(to, user)
	}
	send := func() message.ID {
		receipt, err := c.Publish(t.Context(), message.Draft{From: "ann", To: to, Body: "Good morning!"}, "")
		require.NoError(t, err)
		return receipt.ID
	}
	var id string
	for range 70 { // more than a bucket
		sent := send()
		_, err := c.WaitDone(t.Context(), sent, 0)
		require.NoError(t, err)
		id = sent.String()
	}
	broken.Store(true)
	send()

	b, source, dark := openBrowser(t), axe(t), make(map[string]string)
	console := server.URL() + "/console/"
	b.logIn(console)
	b.says("#health", "there are dead letters (1)")
	for _, scheme := range []string{"light", "dark"} {
		for name, path := range map[string]string{
			"login": "login", "overview": "", "messages": "messages?state=done", "message": "messages/" + id, "letters": "dead-letters",
			"why": "why?" + url.Values{"user": {"fan-59"}, "message": {id}}.Encode(), "inbox": "users/fan-01/inbox", "dormancy": "dormancy",
			"confirm": "dead-letters/confirm?do=drop",
		} {
			b.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
				_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia,
					emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
				return err
			}), chromedp.EmulateViewport(1280, 760), chromedp.Navigate(console+path))
			b.shows(`document.querySelector("main h1")`)
			require.Empty(t, value[[]string](b, `[...document.querySelectorAll(".panel > .bad")].map((panel) => panel.innerText)`), name)
			value[chromedp.Void](b, source)
			if back := value[string](b, "getComputedStyle(document.body).backgroundColor"); scheme == "light" {
				dark[name] = back
			} else {
				require.NotEqual(t, dark[name], back, name)
			}
			shot := b.screenshot()
			require.Less(t, len(shot), largestScreenshot, name)
			if *update {
				require.NoError(t, os.WriteFile(filepath.Join("../../docs/console", name+"-"+scheme+".png"), shot, 0o600))
			}
			require.Empty(t, b.serious(), "%s, %s", name, scheme)
			b.do(chromedp.EmulateViewport(360, 640))
			require.Empty(t, b.serious(), "%s, %s, narrow", name, scheme)
			require.LessOrEqual(t, value[int](b, "document.documentElement.scrollWidth"), 360, "%s fits into a narrow window", name)
			require.Zero(t, b.violations(), name)
		}
	}
	value[chromedp.Void](b, `document.querySelector("main").insertAdjacentHTML("beforeend", "<button></button>")`)
	require.Len(t, b.serious(), 1, "a finding would have been noticed")
}
