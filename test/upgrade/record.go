package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/fanmail/fanmail/pkg/client"
	"github.com/fanmail/fanmail/pkg/message"
	"github.com/fanmail/fanmail/test/tamper/damage"
)

// recording is what is known of a recorded store.
type recording struct {
	// Settings are the keys with which the store was used. The durations are so long that time changes nothing: who was active at the
	// recording stays active, and no idempotency key expires.
	Settings map[string]string `json:"settings"`
	Keyed    []keyed           `json:"keyed"`
	// Before is what clients of the earlier release see when its fan-outs and rehydrations are done, LoggedIn after a login of all users.
	// Redriven is what they see after all dead letters were redriven; a database without its streams has none.
	Before   *seen `json:"before"`
	LoggedIn *seen `json:"logged_in"`
	Redriven *seen `json:"redriven,omitempty"`
}

// settled is how long after its sending a message cannot be followed by an older one: publish_slack and clock_tolerance.
const settled = 16 * time.Second

func settings() map[string]string {
	return map[string]string{
		"partitions": "4", "dormant_after": "438000h", "idempotency.ttl": "438000h", "clock_tolerance": "8s", "publish_slack": "8s",
		"rehydrate.limit": "4", "rehydrate.page": "3", "rehydrate.workers": "6", "fanout.express_max": "20", "fanout.medium_max": "80", "fanout.batch_owners": "3",
	}
}

// Settings of processes that wait for others to end what these began, and of processes that do not.
var (
	patient = map[string]string{"nats.ack_wait": "1h", "fanout.sweep_after": "1h", "rehydrate.lease": "30s"}
	quick   = map[string]string{"nats.ack_wait": "2s", "fanout.sweep_after": "5s", "fanout.sweep_every": "1s", "rehydrate.lease": "4s", "rehydrate.reap_every": "500ms"}
)

// recorder runs programs of the earlier release on a store.
type recorder struct {
	programs string
	env      []string
	url      string
	client   *client.Client
}

// record fills a store, and writes it, and what clients see in it, to files.
func record(ctx context.Context, programs, to string, at place) error {
	dir, err := os.MkdirTemp("", "fanmail-upgrade-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	at.data = filepath.Join(dir, "data")
	r, err := newRecorder(ctx, programs, at)
	if err != nil {
		return err
	}
	defer r.client.Close()
	h := &history{Client: r.client}
	if err := r.fill(ctx, h, at.uri != ""); err != nil {
		return err
	}
	if at.uri == "" {
		if err := r.leaveDeadLetter(ctx, h, at.data); err != nil {
			return err
		}
	}
	if err := r.leaveUnfinished(ctx, at.uri == ""); err != nil {
		return err
	}
	if at.uri == "" {
		err = pack(at.data, to+".tar.gz")
	} else {
		err = errors.Join(leaveEdgePending(ctx, at), dumpDatabase(ctx, at, to+".ndjson.gz"))
	}
	if err != nil {
		return err
	}
	recorded := recording{Settings: settings(), Keyed: h.keyed}
	err = r.during(ctx, quick, "fanmail", []string{"serve"}, func() (err error) {
		if recorded.Before, err = look(ctx, r.client); err != nil {
			return err
		}
		if err := logIn(ctx, r.client); err != nil {
			return err
		}
		if recorded.LoggedIn, err = look(ctx, r.client); err != nil || at.uri != "" {
			return err
		}
		if err := redriveAll(ctx, r.client); err != nil {
			return err
		}
		recorded.Redriven, err = look(ctx, r.client)
		return err
	})
	if err != nil {
		return err
	}
	return writeGzip(to+".json.gz", func(w io.Writer) error { return json.NewEncoder(w).Encode(recorded) })
}

func newRecorder(ctx context.Context, programs string, at place) (*recorder, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return nil, err
	}
	r := &recorder{programs: programs, url: "http://" + addr}
	if r.client, err = client.New(r.url, client.Options{Tries: 1}); err != nil {
		return nil, err
	}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "FANMAIL_") {
			r.env = append(r.env, variable)
		}
	}
	all := settings()
	maps.Copy(all, map[string]string{"addr": addr, "data": at.data, "drain_delay": "0s", "log.level": "warn"})
	if at.uri != "" {
		maps.Copy(all, map[string]string{"store": "mongodb", "mongodb.uri": at.uri, "mongodb.database": at.database, "mongodb.timeout": "2s"})
	}
	r.env = append(r.env, environment(all)...)
	if at.uri != "" {
		return r, r.command(ctx, nil, "fanmail", "admin", "init").Run()
	}
	return r, nil
}

func environment(settings map[string]string) (variables []string) {
	for key, value := range settings {
		variables = append(variables, "FANMAIL_"+strings.ToUpper(strings.ReplaceAll(key, ".", "_"))+"="+value)
	}
	return variables
}

func (r *recorder) command(ctx context.Context, settings map[string]string, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(r.programs, program), args...)
	cmd.Env, cmd.Stderr = slices.Concat(r.env, environment(settings)), os.Stderr
	return cmd
}

// during runs a server until do has returned, and stops it in order.
func (r *recorder) during(ctx context.Context, settings map[string]string, program string, args []string, do func() error) error {
	cmd := r.command(ctx, settings, program, args...)
	if err := cmd.Start(); err != nil {
		return err
	}
	err := r.awaitReady(ctx)
	if err == nil {
		err = do()
	}
	return errors.Join(err, cmd.Process.Signal(syscall.SIGTERM), cmd.Wait())
}

// awaitReady waits until the server is ready.
func (r *recorder) awaitReady(ctx context.Context) error {
	const limit = time.Minute
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		if answer, err := http.DefaultClient.Do(request); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// fill lets everything happen that servers bring to its end.
func (r *recorder) fill(ctx context.Context, h *history, clocksApart bool) error {
	err := r.during(ctx, quick, "fanmail", []string{"serve"}, func() error {
		if err := h.begin(ctx); err != nil {
			return err
		}
		select {
		case <-time.After(settled): // so that there is something to leave to gaps
		case <-ctx.Done():
		}
		return h.comeBack(ctx)
	})
	if err != nil || !clocksApart {
		return err
	}
	return r.during(ctx, quick, "wrongclock", []string{"-clock", "-60s", "fanmail", "serve"}, func() error { return h.publishLate(ctx) })
}

// leaveDeadLetter lets fan-out meet a user whose record is damaged. The record is whole again afterwards, and the letter is left.
func (r *recorder) leaveDeadLetter(ctx context.Context, h *history, data string) error {
	mend, err := damage.Folder{Path: filepath.Join(data, "store"), Files: vfs.Default}.Spoil(ctx, damaged)
	if err != nil {
		return err
	}
	err = r.during(ctx, quick, "fanmail", []string{"serve"}, func() error {
		return h.publish(ctx, direct(star, "to a damaged user", active(3), damaged, dormant(7)))
	})
	return errors.Join(err, mend(ctx))
}

// redriveAll redrives all dead letters, and returns when none is left.
func redriveAll(ctx context.Context, c *client.Client) error {
	letters := 0
	for letter, err := range c.DeadLetters(ctx) {
		if err != nil {
			return err
		}
		if err := c.Redrive(ctx, letter.ID); err != nil {
			return err
		}
		letters++
	}
	if letters == 0 {
		return errors.New("there is no dead letter to redrive")
	}
	return nil
}

// death is where a server dies of what it is asked to do.
type death struct {
	at, when, nth string
	do            func()
}

// leaveUnfinished lets servers die amid fan-outs and rehydrations. The settings keep one server from ending what another one has begun,
// except for rehydrations on the embedded store: there, one death has to leave marks and sweeps.
func (r *recorder) leaveUnfinished(ctx context.Context, embedded bool) error {
	const first, between = 10, 13
	deaths := []death{{"plan", "before", "1", r.publish(ctx, poet)}, {"record", "before", "2", r.publish(ctx, star)}}
	if embedded {
		deaths = append(deaths, death{"end-sweep", "before", "2", r.logins(ctx, first, dormants)})
	} else {
		deaths = append(deaths, death{"rebuild", "halfway", "2", r.logins(ctx, first, between)}, death{"end-sweep", "before", "2", r.logins(ctx, between, dormants)})
	}
	for _, d := range deaths {
		if err := r.die(ctx, d); err != nil {
			return fmt.Errorf("dying %s %s: %w", d.when, d.at, err)
		}
	}
	return nil
}

// publish publishes a message to followers. The server may die before it answers.
func (r *recorder) publish(ctx context.Context, from message.UserID) func() {
	return func() { _, _ = r.client.Publish(ctx, toFollowers(from, unfinishedBody), "") }
}

// logins logs dormant users in at the same time. The server may die before it answers.
func (r *recorder) logins(ctx context.Context, from, to int) func() {
	return func() {
		var working sync.WaitGroup
		for i := from; i < to; i++ {
			working.Go(func() { _, _ = r.client.Login(ctx, dormant(i), client.MaxLoginWait) })
		}
		working.Wait()
	}
}

// die starts a server, and returns when that has died.
func (r *recorder) die(ctx context.Context, d death) error {
	cmd := r.command(ctx, patient, "faulty", "-at", d.at, "-when", d.when, "-nth", d.nth)
	if err := cmd.Start(); err != nil {
		return err
	}
	err := r.awaitReady(ctx)
	if err == nil {
		d.do()
	}
	err = errors.Join(err, cmd.Wait())
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
			return nil
		}
	}
	return errors.Join(errors.New("the server has not died at its failpoint"), err)
}

// leaveEdgePending lets an edge look as if its process had died between the two documents of the edge.
func leaveEdgePending(ctx context.Context, at place) error {
	edge := bson.D{{Key: "follower", Value: active(9)}, {Key: "followee", Value: star}}
	return inDatabase(at, func(db *mongo.Database) error {
		changed, err := db.Collection("followers").UpdateOne(ctx, edge, bson.D{{Key: "$set", Value: bson.D{{Key: "pending", Value: true}}}})
		if err == nil && changed.ModifiedCount != 1 {
			err = errors.New("there is no edge to leave pending")
		}
		if err != nil {
			return err
		}
		_, err = db.Collection("following").DeleteOne(ctx, edge)
		return err
	})
}
