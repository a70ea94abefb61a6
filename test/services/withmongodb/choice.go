package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fanmail/fanmail/test/services"
)

const (
	startTimeout = 3 * time.Minute
	stopTimeout  = time.Minute
)

// Build tags: see test/testenv/tier.go.
const (
	tagServer  = "mongodb"
	tagProgram = "mongod"
)

// choice is the server for a command.
type choice struct {
	uri string
	// report is printed before the command.
	report string
	// tags are the build tags that select the tests which can run with this server.
	tags []string
	// ended is closed when the server has ended. It is nil if this process did not start the server.
	ended <-chan struct{}
	// close stops the server and removes its data, if this process started it.
	close func(ctx context.Context) error
}

// choose finds or starts the server. A signal aborts it.
func choose(ctx context.Context, variables map[string]string, signals <-chan os.Signal, progress io.Writer) (*choice, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	chosen := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case received := <-signals:
			cancel(fmt.Errorf("received %s", received))
		case <-chosen:
		}
	}()
	defer func() {
		close(chosen)
		<-watched
		cancel(nil)
	}()
	if uri := variables[services.URIVariable]; uri != "" {
		return given(ctx, uri)
	}
	program, err := services.InstallMongoDB(ctx, progress)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	} else if err != nil {
		_, _ = fmt.Fprintln(progress, remedies)
		return nil, fmt.Errorf("there is no MongoDB server for the tests: %w", err)
	}
	return started(ctx, program)
}

const remedies = `There is no MongoDB server for the tests. Any of these helps:
  - set ` + services.URIVariable + ` to the URI of a server, such as mongodb://127.0.0.1:27017, whose databases
    named fanmail_test_… the tests may create and drop
  - put a mongod on the PATH
  - run as root on Debian with a network, to let DocumentDB be installed`

// given returns the server at the URI that the user has given.
func given(ctx context.Context, uri string) (*choice, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	version, err := services.Identify(ctx, uri)
	if err != nil {
		return nil, fmt.Errorf("the server of %s: %w", services.URIVariable, err)
	}
	report, tags := fmt.Sprintf("MongoDB server under test: the one of %s, %s.", services.URIVariable, version), []string{tagServer, tagProgram}
	if _, err := services.FindMongoDB(ctx); errors.Is(err, services.ErrNotInstalled) {
		report += "\nLEFT OUT: tests that start and kill a server of their own, because " + err.Error() + "."
		tags = []string{tagServer}
	}
	return &choice{uri: uri, report: report, tags: tags, close: func(context.Context) error { return nil }}, nil
}

// started starts a server.
func started(ctx context.Context, program *services.MongoDB) (_ *choice, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	folder, err := os.MkdirTemp("", "fanmail-mongodb-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}()
	port, err := services.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	server := program.NewServer(folder, port)
	begin := time.Now()
	if err := server.Start(ctx); err != nil {
		return nil, err
	}
	version, err := services.Identify(ctx, server.URI())
	if err != nil {
		server.Kill()
		return nil, err
	}
	return &choice{
		uri: server.URI(), tags: []string{tagServer, tagProgram},
		report: fmt.Sprintf("MongoDB server under test: %s,\n  which says that it is %s. Started in %.1f s on port %d.",
			program, version, time.Since(begin).Seconds(), port),
		ended: server.Ended(),
		close: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, stopTimeout)
			defer cancel()
			return errors.Join(server.Stop(ctx), os.RemoveAll(folder))
		},
	}, nil
}

// environment returns the environment of the command: the given one, with the URI of the server, and with the tags in GOFLAGS.
func (c *choice) environment(given []string) []string {
	flags := variables(given)[flagsVariable]
	environment := slices.DeleteFunc(slices.Clone(given), func(variable string) bool {
		return strings.HasPrefix(variable, services.URIVariable+"=") || strings.HasPrefix(variable, flagsVariable+"=")
	})
	return append(environment, services.URIVariable+"="+c.uri, flagsVariable+"="+withTags(flags, c.tags))
}

// flagsVariable is the environment variable with flags for the go command.
const flagsVariable = "GOFLAGS"

// withTags adds build tags to flags of the go command, which uses only the last -tags.
func withTags(flags string, tags []string) string {
	var others []string
	for flag := range strings.FieldsSeq(flags) {
		name, given, _ := strings.Cut(flag, "=")
		if strings.TrimLeft(name, "-") == "tags" {
			tags = append(strings.Split(given, ","), tags...)
		} else {
			others = append(others, flag)
		}
	}
	return strings.Join(append(others, "-tags="+strings.Join(tags, ",")), " ")
}

// variables returns the variables of an environment by name.
func variables(environment []string) map[string]string {
	variables := make(map[string]string, len(environment))
	for _, variable := range environment {
		name, value, _ := strings.Cut(variable, "=")
		variables[name] = value
	}
	return variables
}
