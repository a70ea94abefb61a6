package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes. It is written as a whole number with one of the units B, KiB, MiB and GiB, such as 64KiB. Without a unit it
// means bytes.
type Size int64

// The units of a Size.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
)

var sizeUnits = []struct {
	suffix string
	size   Size
}{{"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", 1}}

// ParseSize reads what Size.String writes.
func ParseSize(text string) (Size, error) {
	number, unit := text, Size(1)
	for _, u := range sizeUnits {
		if rest, found := strings.CutSuffix(text, u.suffix); found {
			number, unit = rest, u.size
			break
		}
	}
	n, err := strconv.ParseUint(strings.TrimSpace(number), 10, 63)
	if err != nil || n > math.MaxInt64/uint64(unit) {
		return 0, fmt.Errorf("%q, which is not a size such as 512B, 64KiB, 32MiB or 1GiB", text)
	}
	return Size(n) * unit, nil
}

// String returns the size in the greatest unit that needs no fraction.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.suffix
		}
	}
	return "0B"
}
