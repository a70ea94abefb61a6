package progress_test

import (
	"fmt"

	"github.com/fanmail/fanmail/internal/progress"
)

// A scan that starts at "m" continues to the end of the partition, and then from the beginning to "m".
func ExampleScan() {
	scan := progress.Scan{}.Join("m")
	scan = scan.Advance("x", false, progress.Counts{Delivered: 10})
	fmt.Println(scan.Ahead("z"), scan.Ahead("n"), scan.Done)
	scan = scan.Advance("", true, progress.Counts{Delivered: 2})
	fmt.Println(scan.Wrapped(), scan.Ahead("a"), scan.Done)
	scan = scan.Advance("m", false, progress.Counts{Delivered: 7, Skipped: 1})
	fmt.Println(scan.Delivered, scan.Skipped, scan.Done)
	// Output:
	// true false false
	// true true false
	// 19 1 true
}
