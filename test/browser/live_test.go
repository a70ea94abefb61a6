package browser_test

import (
	"flag"
	"os"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the screenshot in docs/")

const (
	// talked is how many messages of the demo each follower has.
	talked = 10
	// largestScreenshot is in bytes.
	largestScreenshot = 200 << 10
)

func TestInboxesOfThePageStayCurrent(t *testing.T) {
	t.Parallel()
	page := startDemo(t)
	api := call(t, "GET", page+"api", "")
	b := openBrowser(t)
	b.do(chromedp.Navigate(page))
	b.inbox("fan-0001", talked, talked)
	b.inbox("fan-0002", talked, talked)
	b.state("fan-0008", "closed")

	b.do(chromedp.SetValue(`[name="body"]`, "One more!"), chromedp.Click("#publish button"))
	b.inbox("fan-0001", talked+1, talked+1)
	b.newest("fan-0001", "One more!")
	b.inbox("fan-0002", talked+1, talked+1)

	b.click("fan-0001", "li:first-child .read")
	b.inbox("fan-0001", talked+1, talked)
	b.click("fan-0001", "li:nth-child(2) .archive")
	b.inbox("fan-0001", talked, talked-1)
	b.click("fan-0001", "li:nth-child(2) .delete")
	b.inbox("fan-0001", talked-1, talked-2)

	b.disconnect()
	b.state("fan-0001", "lost")
	b.state("fan-0002", "lost")
	publish := func(to, body string) {
		call(t, "POST", api+"/v1/messages", `{"from":"atlas",`+to+`,"body":"`+body+`"}`)
	}
	call(t, "POST", api+"/v1/users/fan-0001/inbox/read", `{"all":true}`)
	publish(`"audience":"followers"`, "Anybody there?")
	publish(`"to":["fan-0002"]`, "Only you.")
	publish(`"to":["fan-0008"]`, "Welcome back!")
	publish(`"to":["fan-0001"]`, "Call me.")
	b.connect()
	b.inbox("fan-0002", talked+3, talked+3)
	b.newest("fan-0001", "Call me.")
	b.inbox("fan-0001", talked+1, 2)
	require.Contains(t, call(t, "GET", api+"/metrics", ""), `fanmail_stream_resets_total{reason="start"} 2`+"\n", "the streams went on where they were")

	b.inbox("fan-0008", 0, 0)
	states := b.watchStates("fan-0008")
	b.click("fan-0008", ".back")
	b.inbox("fan-0008", talked+3, talked+3)
	b.newest("fan-0008", "Welcome back!")
	require.Equal(t, []string{"closed", "rebuilding"}, states())

	shot := b.screenshot()
	require.Less(t, len(shot), largestScreenshot)
	if *update {
		require.NoError(t, os.WriteFile("../../docs/live.png", shot, 0o600))
	}
}
