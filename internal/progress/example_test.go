package progress_test

import (
	"fmt"

	"github.com/fanmail/fanmail/internal/progress"
)

// A scan that joins others in the middle goes on to the end, and from the beginning to where it started.
func ExampleScan() {
	scan := progress.Scan{}.Join("m")
	scan = scan.Advance("x", false, 10, 0)
	fmt.Println(scan.Ahead("z"), scan.Ahead("n"), scan.Done)
	scan = scan.Advance("", true, 2, 0)
	fmt.Println(scan.Wrapped(), scan.Ahead("a"), scan.Done)
	scan = scan.Advance("m", false, 7, 1)
	fmt.Println(scan.Delivered, scan.Skipped, scan.Done)
	// Output:
	// true false false
	// true true false
	// 19 1 true
}
