package attribute_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fanmail/fanmail/pkg/attribute"
)

// faceted has two attributes of each type.
func faceted() attribute.Set {
	var declared []attribute.Declaration
	for i, t := range attribute.Types() {
		declared = append(declared,
			attribute.Declaration{Name: "a-" + string(t), Type: t, Number: 2*i + 1}, attribute.Declaration{Name: "b-" + string(t), Type: t, Number: 2*i + 2})
	}
	return attribute.NewSet(2*len(declared), declared)
}

// drawValue draws a value as it is in JSON and as it is in a condition.
func drawValue(t *rapid.T, of attribute.Type, label string) (inJSON, text string) {
	word := func() string {
		return rapid.SampledFrom([]string{"", "x", "xy", "true", "1", "ä", "2026-01-01T00:00:00Z"}).Draw(t, label)
	}
	switch of {
	case attribute.Number:
		text = rapid.SampledFrom([]string{"0", "-0.5", "64", "64.00000000000001", "1e300", "-1e300", "5e-324", "-64", "65"}).Draw(t, label)
		return text, text
	case attribute.Bool:
		text = rapid.SampledFrom([]string{"true", "false"}).Draw(t, label)
		return text, text
	case attribute.Time:
		text = rapid.SampledFrom([]string{
			"0001-01-01T00:00:00Z", "1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00Z", "2026-01-01T00:00:00.001Z", "2026-01-01T00:00:00.009Z",
			"9999-12-31T23:59:59.999Z",
		}).Draw(t, label)
		return `"` + text + `"`, text
	case attribute.Strings:
		count := rapid.SampledFrom([]int{0, 1, 2, 16, 17, 40}).Draw(t, label)
		list := make([]string, count)
		for i := range list {
			list[i] = fmt.Sprintf(`"%d"`, i)
		}
		if count > 0 {
			list[count-1] = `"` + word() + `"`
		}
		return "[" + strings.Join(list, ",") + "]", word()
	default:
		text = word()
		return `"` + text + `"`, text
	}
}

// TestFacetsNeverMiss draws values and conditions. An entry that meets a condition has a facet in its ranges.
func TestFacetsNeverMiss(t *testing.T) {
	t.Parallel()
	set := faceted()
	rapid.Check(t, func(t *rapid.T) {
		var fields []string
		for _, d := range set.All() {
			if rapid.Bool().Draw(t, "has "+d.Name) {
				value, _ := drawValue(t, d.Type, d.Name)
				fields = append(fields, fmt.Sprintf("%q:%s", d.Name, value))
			}
		}
		attrs := json.RawMessage("{" + strings.Join(fields, ",") + "}")
		values, err := set.Check(attrs)
		require.NoError(t, err)
		facets := set.Facets(attrs)
		require.LessOrEqual(t, len(facets), attribute.MaxFacets)
		require.True(t, slices.IsSorted(facets))

		d := rapid.SampledFrom(set.All()).Draw(t, "declaration")
		operators := []attribute.Operator{attribute.Equal, attribute.NotEqual, attribute.Exists}
		if d.Type != attribute.Bool {
			operators = append(operators, attribute.Less, attribute.LessOrEqual, attribute.Greater, attribute.GreaterOrEqual, attribute.In)
		}
		op := rapid.SampledFrom(operators).Draw(t, "operator")
		_, text := drawValue(t, d.Type, "operand")
		if op == attribute.Exists {
			text = rapid.SampledFrom([]string{"true", "false"}).Draw(t, "exists")
		}
		c, err := set.ParseCondition("attr", fmt.Sprintf("%s:%s:%s", d.Name, op, text))
		require.NoError(t, err)
		ranges, selectivity := c.Facets()
		if selectivity == attribute.Unindexed {
			require.Empty(t, ranges)
			return
		}
		found := slices.ContainsFunc(facets, func(f attribute.Facet) bool {
			return slices.ContainsFunc(ranges, func(r attribute.FacetRange) bool { return r.Holds(f) })
		})
		require.True(t, found || !c.Holds(values), "%s has %v, and %s %s %s needs %v", attrs, facets, d.Name, op, text, ranges)
		if op == attribute.Equal && d.Type != attribute.Strings && d.Type != attribute.Number && d.Type != attribute.Time {
			require.Equal(t, c.Holds(values), found, "of these types, equal values alone have the same facet")
		}
	})
}

// TestNarrowestNeverMisses draws several conditions on few attributes. An entry that meets all of them has a facet in the ranges.
func TestNarrowestNeverMisses(t *testing.T) {
	t.Parallel()
	set := attribute.NewSet(2, []attribute.Declaration{{Name: "n", Type: attribute.Number, Number: 1}, {Name: "s", Type: attribute.Strings, Number: 2}})
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.IntRange(-3, 3)
		attrs := json.RawMessage(fmt.Sprintf(`{"n":%d,"s":["%d","%d"]}`, number.Draw(t, "n"), number.Draw(t, "s"), number.Draw(t, "s")))
		var conditions []attribute.Condition
		for range rapid.IntRange(1, 4).Draw(t, "conditions") {
			text := rapid.SampledFrom([]string{"n:gte", "n:lt", "n:gt", "n:lte", "n:eq", "n:ne", "s:eq", "s:gte", "s:lt"}).Draw(t, "operator")
			c, err := set.ParseCondition("attr", fmt.Sprintf("%s:%d", text, number.Draw(t, "operand")))
			require.NoError(t, err)
			conditions = append(conditions, c)
		}
		ranges, declared, selectivity := attribute.Narrowest(conditions)
		require.NotEqual(t, attribute.Unindexed, selectivity)
		require.True(t, slices.ContainsFunc(conditions, func(c attribute.Condition) bool { return c.Declaration.Number == declared }))
		values := set.Read(attrs)
		if slices.ContainsFunc(conditions, func(c attribute.Condition) bool { return !c.Holds(values) }) {
			return
		}
		require.True(t, slices.ContainsFunc(set.Facets(attrs), func(f attribute.Facet) bool {
			return slices.ContainsFunc(ranges, func(r attribute.FacetRange) bool { return r.Holds(f) })
		}), "%s and %v", attrs, conditions)
	})
}

// TestWindow makes one range of two bounds, whatever their order, and leaves out the values on both sides.
func TestWindow(t *testing.T) {
	t.Parallel()
	set := attribute.NewSet(1, []attribute.Declaration{{Name: "n", Type: attribute.Number, Number: 1}})
	condition := func(text string) attribute.Condition {
		c, err := set.ParseCondition("attr", text)
		require.NoError(t, err)
		return c
	}
	from, below := condition("n:gte:10"), condition("n:lt:20")
	for _, window := range [][]attribute.Condition{{from, below}, {below, from}} {
		ranges, number, selectivity := attribute.Narrowest(window)
		require.Equal(t, attribute.Bounded, selectivity)
		require.Equal(t, 1, number)
		require.Len(t, ranges, 1)
		for n, want := range map[int]bool{5: false, 10: true, 15: true, 25: false} {
			facets := set.Facets(json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)))
			require.Equal(t, want, ranges[0].Holds(facets[0]), n)
		}
	}
	ranges, _, selectivity := attribute.Narrowest([]attribute.Condition{condition("n:gt:20"), condition("n:lt:10")})
	require.Equal(t, attribute.Bounded, selectivity)
	require.Len(t, ranges, 1)
	require.LessOrEqual(t, ranges[0].Low, ranges[0].High, "a range that no entry meets is no range for an index")
	_, _, selectivity = attribute.Narrowest(nil)
	require.Equal(t, attribute.Unindexed, selectivity)
}

// TestFacetsAreOrdered finds the facets of numbers and times in the order of their values, and far apart where the values are.
func TestFacetsAreOrdered(t *testing.T) {
	t.Parallel()
	set := attribute.NewSet(9, []attribute.Declaration{{Name: "n", Type: attribute.Number, Number: 3}, {Name: "t", Type: attribute.Time, Number: 9}})
	of := func(format string, value any) attribute.Facet {
		facets := set.Facets(json.RawMessage(fmt.Sprintf(format, value)))
		require.Len(t, facets, 1)
		return facets[0]
	}
	numbers := []float64{-math.MaxFloat64, -1e9, -64.5, -64, -1e-300, 0, 1e-300, 1, 63, 63.9, 64, 1e9, 1 << 53, math.MaxFloat64}
	times := []string{"0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "1970-01-01T00:00:01Z", "2026-11-26T08:00:00Z", "9999-12-31T23:59:59Z"}
	var found []attribute.Facet
	for _, n := range numbers {
		found = append(found, of(`{"n":%v}`, n))
	}
	for _, at := range times {
		found = append(found, of(`{"t":%q}`, at))
	}
	require.True(t, slices.IsSorted(found))
	require.Len(t, slices.Compact(slices.Clone(found)), len(found))
}

// TestFacetsStay pins facets, because they are stored.
func TestFacetsStay(t *testing.T) {
	t.Parallel()
	var got []string
	for _, attrs := range []string{
		`{}`, `{"a-string":"x"}`, `{"b-string":"x"}`, `{"a-bool":true,"b-bool":false}`, `{"a-number":64.5}`, `{"a-number":-1}`,
		`{"a-time":"2026-11-26T08:00:00Z"}`, `{"a-strings":[]}`, `{"a-strings":["x","y","x"]}`,
	} {
		got = append(got, fmt.Sprintf("%x", faceted().Facets(json.RawMessage(attrs))))
	}
	require.Equal(t, []string{
		"[]", "[144ece714a029]", "[24bc3879913f9]", "[753f6525eba0a 86737fd443b92]", "[5b01408000000]", "[59003ffffffff]",
		"[9903442dbcb00]", "[3000000000000]", "[357d931d82a82 37e6988978a83]",
	}, got)
}

// TestFacetsOfLongLists gives a list with too many elements one facet, and other attributes theirs.
func TestFacetsOfLongLists(t *testing.T) {
	t.Parallel()
	var declared []attribute.Declaration
	var fields []string
	for i := range attribute.Max {
		declared = append(declared, attribute.Declaration{Name: fmt.Sprintf("l%02d", i), Type: attribute.Strings, Number: i + 1})
		fields = append(fields, fmt.Sprintf(`"l%02d":["a","b","c","d","e"]`, i))
	}
	set := attribute.NewSet(attribute.Max, declared)
	facets := set.Facets(json.RawMessage("{" + strings.Join(fields, ",") + "}"))
	require.LessOrEqual(t, len(facets), attribute.MaxFacets)
	for _, d := range declared {
		c, err := set.ParseCondition("attr", d.Name+":eq:e")
		require.NoError(t, err)
		ranges, _ := c.Facets()
		require.True(t, slices.ContainsFunc(facets, func(f attribute.Facet) bool {
			return slices.ContainsFunc(ranges, func(r attribute.FacetRange) bool { return r.Holds(f) })
		}), d.Name)
	}
	require.Empty(t, set.UpTo(0).Facets(json.RawMessage(`{"l00":["a"]}`)))
	require.Len(t, set.UpTo(1).Facets(json.RawMessage(`{"l00":["a"],"l01":["a"]}`)), 1)
}
