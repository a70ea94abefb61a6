package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// tables are what River's and BullMQ's programs use beside their queues.
const tables = `
create table followers (author text, follower text, primary key (author, follower));
create table inbox (owner text, id text, message jsonb not null, primary key (owner, id));
`

// openPostgres opens a pool of at most so many connections, with settings of the server such as name=value.
func (o options) openPostgres(ctx context.Context, connections int, settings ...string) (*pgxpool.Pool, error) {
	url := fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable&pool_max_conns=%d", o.postgres, connections)
	return pgxpool.New(ctx, strings.Join(append([]string{url}, settings...), "&"))
}

// fillPostgres makes the tables, those of River too, and writes the followers.
func fillPostgres(ctx context.Context, o options) error {
	pool, err := o.openPostgres(ctx, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, tables); err != nil {
		return err
	}
	followers := followersOf(o.followers)
	rows := pgx.CopyFromSlice(len(followers), func(i int) ([]any, error) { return []any{author, followers[i]}, nil })
	if _, err := pool.CopyFrom(ctx, pgx.Identifier{"followers"}, []string{"author", "follower"}, rows); err != nil {
		return err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	_, err = pool.Exec(ctx, "analyze")
	return err
}

// postgresInboxes are the rows of one table.
type postgresInboxes struct{ pool *pgxpool.Pool }

func (p postgresInboxes) counts(ctx context.Context, owners []string) ([]int, error) {
	rows, err := p.pool.Query(ctx, "select owner, count(*) from inbox where owner = any($1) group by owner", owners)
	if err != nil {
		return nil, err
	}
	counts := make([]int, len(owners))
	var owner string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&owner, &n}, func() error {
		i, found := slices.BinarySearch(owners, owner) // followersOf returns them in order
		if !found {
			return fmt.Errorf("%q was not asked for", owner)
		}
		counts[i] = n
		return nil
	})
	return counts, err
}

func (p postgresInboxes) bodies(ctx context.Context, owner string) ([]string, error) {
	rows, err := p.pool.Query(ctx, "select message->>'body' from inbox where owner = $1", owner)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// settled is true, because a commit is synced before others see it.
func (postgresInboxes) settled(context.Context) (bool, error) { return true, nil }
