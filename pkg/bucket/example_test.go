package bucket_test

import (
	"context"
	"fmt"

	"github.com/fanmail/fanmail/internal/storetest/buckettest"
	"github.com/fanmail/fanmail/internal/storetest/messagetest"
	"github.com/fanmail/fanmail/pkg/bucket"
)

// An append takes effect once, however often it is repeated.
func ExampleAppender() {
	ctx := context.Background()
	store := buckettest.NewModel(bucket.Capacity)
	appender := bucket.NewAppender(store, &recorder{})
	batch := []bucket.Append{{Owner: "ann", Entries: []bucket.Entry{
		bucket.EntryOf(messagetest.Message(1, "bob")),
		bucket.EntryOf(messagetest.Message(2, "bob")),
	}}}
	for range 2 {
		results, err := appender.Append(ctx, batch)
		fmt.Println(results[0].New, err)
	}
	// Output:
	// 2 <nil>
	// 0 <nil>
}

// Pages are read from the newest entry down, each from where the last one ended.
func ExampleReadPage() {
	ctx := context.Background()
	store := buckettest.NewModel(bucket.Capacity)
	var batch []bucket.Entry
	for n := range 5 {
		batch = append(batch, bucket.EntryOf(messagetest.Message(n, "bob")))
	}
	_, err := bucket.NewAppender(store, &recorder{}).Append(ctx, []bucket.Append{{Owner: "ann", Entries: batch}})
	if err != nil {
		fmt.Println(err)
	}
	var before *bucket.Cursor
	for {
		page, err := bucket.ReadPage(ctx, store, bucket.PageRequest{Owner: "ann", Before: before, Limit: 2})
		if err != nil {
			fmt.Println(err)
		}
		for _, e := range page.Entries {
			fmt.Println(e.Body)
		}
		if page.Next == nil {
			break
		}
		before = page.Next
		fmt.Println("--")
	}
	// Output:
	// message 4
	// message 3
	// --
	// message 2
	// message 1
	// --
	// message 0
}
