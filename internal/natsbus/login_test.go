package natsbus_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/fanmail/fanmail/internal/bus"
	"github.com/fanmail/fanmail/internal/natsbus"
	"github.com/fanmail/fanmail/internal/natsbus/natsserver"
	"github.com/fanmail/fanmail/pkg/event"
)

const loginSubject = "fanmail.v1.login"

// loginService returns a bus, and the JetStream client of a login service: a plain client that knows the server's address.
func loginService(t *testing.T, opts natsbus.Options) (*natsbus.Bus, jetstream.JetStream) {
	t.Helper()
	server := start(t, natsserver.Options{Addr: "127.0.0.1:0"})
	opts.Server = server
	return connect(t, opts), admin(t, server)
}

func logIn(t *testing.T, js jetstream.JetStream, user string) {
	t.Helper()
	_, err := js.Publish(t.Context(), loginSubject, []byte(`{"user":"`+user+`"}`))
	require.NoError(t, err)
}

func fetchLogins(t *testing.T, b *natsbus.Bus, limit int) []bus.Received {
	t.Helper()
	received, err := b.FetchLogins(patient(t), limit)
	require.NoError(t, err)
	require.LessOrEqual(t, len(received), limit)
	return received
}

func TestLoginsOfAnybodyAreFetchedInOrder(t *testing.T) {
	t.Parallel()
	b, js := loginService(t, natsbus.Options{})
	const count = 25
	for n := range count {
		logIn(t, js, fmt.Sprintf("user-%02d", n))
	}
	stream, err := js.Stream(t.Context(), natsbus.LoginStream)
	require.NoError(t, err)
	var users int
	for users < count {
		for _, r := range fetchLogins(t, b, 10) {
			d := r.Delivery()
			login, err := event.DecodeLogin(d.Payload)
			require.NoError(t, err)
			require.EqualValues(t, fmt.Sprintf("user-%02d", users), login.User)
			require.Equal(t, loginSubject, d.Subject)
			require.Equal(t, 1, d.Attempts)
			stored, err := stream.GetMsg(t.Context(), d.Sequence)
			require.NoError(t, err)
			require.Equal(t, stored.Time.UTC(), d.Stored)
			require.NoError(t, r.Ack())
			users++
		}
	}
}

func TestLoginThroughCoreNATSIsKeptToo(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{Addr: "127.0.0.1:0"})
	b := connect(t, natsbus.Options{Server: server})
	nc, err := nats.Connect(server.ClientURL(), nats.Timeout(time.Minute))
	require.NoError(t, err)
	defer nc.Close()
	require.NoError(t, nc.Publish(loginSubject, []byte(`{"v":1,"user":"ann"}`)))
	login, err := event.DecodeLogin(fetchLogins(t, b, 1)[0].Delivery().Payload)
	require.NoError(t, err)
	require.Equal(t, event.Login{User: "ann"}, login)
}

func TestLoginsAreShared(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{Addr: "127.0.0.1:0"})
	one, two := connect(t, natsbus.Options{Server: server}), connect(t, natsbus.Options{Server: server})
	js := admin(t, server)
	seen := make(map[string]bool)
	for n := range 10 {
		logIn(t, js, fmt.Sprintf("user-%d", n))
	}
	for len(seen) < 10 {
		for _, b := range []*natsbus.Bus{one, two} {
			if len(seen) == 10 {
				break
			}
			for _, r := range fetchLogins(t, b, 3) { // no login is acknowledged, so all are handed out at the same time
				require.False(t, seen[string(r.Delivery().Payload)])
				seen[string(r.Delivery().Payload)] = true
			}
		}
	}
}

func TestLoginComesAgain(t *testing.T) {
	t.Parallel()
	b, js := loginService(t, natsbus.Options{Lease: 200 * time.Millisecond})
	logIn(t, js, "ann")
	first := fetchLogins(t, b, 10)[0]
	again := fetchLogins(t, b, 10)[0]
	require.GreaterOrEqual(t, again.Delivery().Attempts, 2)
	require.Equal(t, first.Delivery().Stored, again.Delivery().Stored, "the time of the login does not change")
}

func TestMalformedLoginBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	b, js := loginService(t, natsbus.Options{})
	stream, err := js.Stream(t.Context(), natsbus.DeadLetterStream)
	require.NoError(t, err)
	largest := bytes.Repeat([]byte{0xff}, 64<<10-100) // the subject needs some of the room
	for name, payload := range map[string][]byte{
		"nothing": nil, "no JSON": []byte("\xff"), "no user": []byte(`{}`), "no user id": []byte(`{"user":"a b"}`),
		"a later version": []byte(`{"v":2,"user":"ann"}`), "as large as a login may be": largest,
	} {
		_, err := js.Publish(t.Context(), loginSubject, payload)
		require.NoError(t, err, name)
		r := fetchLogins(t, b, 1)[0]
		_, err = event.DecodeLogin(r.Delivery().Payload)
		require.ErrorIs(t, err, event.ErrMalformed, name)
		letter := event.DeadLetter{
			Version: event.Version, Reason: "malformed", Error: err.Error(), Attempts: r.Delivery().Attempts,
			Subject: r.Delivery().Subject, Payload: append([]byte{}, r.Delivery().Payload...),
		}
		require.NoError(t, b.DeadLetter(patient(t), letter), name)
		require.NoError(t, r.Ack())
		msg, err := stream.GetLastMsgForSubject(t.Context(), "fanmail.v1.dlq.login")
		require.NoError(t, err)
		var got event.DeadLetter
		require.NoError(t, json.Unmarshal(msg.Data, &got))
		require.Equal(t, letter, got, name)
	}
}

func TestLoginThatIsNotTakenIsTold(t *testing.T) {
	t.Parallel()
	t.Run("the stream is full", func(t *testing.T) {
		t.Parallel()
		b, js := loginService(t, natsbus.Options{LoginBytes: 4 << 10})
		accepted := 0
		var err error
		for err == nil && accepted < 1000 {
			if _, err = js.Publish(t.Context(), loginSubject, []byte(`{"user":"ann"}`)); err == nil {
				accepted++
			}
		}
		require.ErrorContains(t, err, "maximum bytes exceeded")
		for range accepted { // no accepted login is dropped
			require.NoError(t, fetchLogins(t, b, 1)[0].Ack())
		}
		require.Eventually(t, func() bool { // Ack does not wait for the server
			_, err := js.Publish(t.Context(), loginSubject, []byte(`{"user":"ann"}`))
			return err == nil
		}, patience, time.Millisecond, "there is room again")
	})
	t.Run("the login is too large", func(t *testing.T) {
		t.Parallel()
		_, js := loginService(t, natsbus.Options{})
		_, err := js.Publish(t.Context(), loginSubject, make([]byte, 64<<10+1))
		require.ErrorContains(t, err, "message size exceeds maximum allowed")
	})
}

func TestRehydratedIsToldToWhoeverListens(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{Addr: "127.0.0.1:0"})
	b := connect(t, natsbus.Options{Server: server})
	nc, err := nats.Connect(server.ClientURL(), nats.Timeout(time.Minute))
	require.NoError(t, err)
	defer nc.Close()
	b.EmitRehydrated(event.NewRehydrated("early", 1)) // no program has subscribed yet
	require.NoError(t, b.Healthy(patient(t)))         // the server has processed the earlier event
	told := make(chan *nats.Msg, 2)
	_, err = nc.ChanSubscribe("fanmail.v1.rehydrated", told)
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	b.EmitRehydrated(event.NewRehydrated("ann", 42))
	got, err := event.DecodeRehydrated(receive(t, told).Data)
	require.NoError(t, err)
	require.Equal(t, event.NewRehydrated("ann", 42), got)
}

func TestRehydratedWithoutAServerIsLogged(t *testing.T) {
	t.Parallel()
	server := start(t, natsserver.Options{})
	var log bytes.Buffer
	b, err := natsbus.Connect(patient(t), filled(natsbus.Options{Server: server, Partitions: 1, Logger: zerolog.New(zerolog.SyncWriter(&log))}))
	require.NoError(t, err)
	b.Close()
	b.EmitRehydrated(event.NewRehydrated("ann", 42))
	require.Contains(t, log.String(), "cannot announce a rehydrated user")
}
