package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// column is a column of the table that the benchmark checks.
type column struct {
	name string
	// row and figure name the measured number, and of are the figures of the same row that explain it.
	row, figure string
	of          []string
	// said is what the source of the table says of its three layouts.
	said []said
}

// said is a word about a layout.
type said struct {
	layout, words string
	// from and to are the places among the three that the words allow: the two copies of size are both worst.
	from, to int
}

// columns is the source's table. Our name of its fan-out on write with buckets is buckets.
func columns() []column {
	return []column{
		{
			name: "send", row: "send", figure: "answered p50", of: []string{"documents", "log", "requests"}, said: []said{
				{"on-read", "best: a single write", 1, 1},
				{"on-write", "good: a shard per recipient, multiple writes", 2, 2},
				{"buckets", "worst: a shard per recipient, appends, which grow", 3, 3},
			},
		},
		{
			name: "read", row: "read 50", figure: "took p50", of: []string{"documents"}, said: []said{
				{"on-read", "worst: a broadcast to all shards, random reads", 3, 3},
				{"on-write", "good: a single shard, random reads", 2, 2},
				{"buckets", "best: a single shard, a single read", 1, 1},
			},
		},
		{
			name: "size", row: "size", figure: "in all", of: []string{"records", "documents", "on disk", "all indexes"}, said: []said{
				{"on-read", "best: stored once", 1, 1},
				{"on-write", "worst: a copy per recipient", 2, 3},
				{"buckets", "worst: a copy per recipient", 2, 3},
			},
		},
	}
}

// ranked is a layout with its number in a column.
type ranked struct {
	layout string
	Figure
}

// conclude adds the ranks of the layouts, and compares those of the source's three with its words. The whole server has no rank.
func conclude(r *Report) {
	ranks := make(map[string][]Figure)
	var order []string
	for _, c := range columns() {
		all := ranking(*r, c)
		for i, l := range all {
			if ranks[l.layout] == nil {
				order = append(order, l.layout)
			}
			ranks[l.layout] = append(ranks[l.layout], figure(c.name, float64(i+1), fmt.Sprintf("of %d", len(all))))
		}
		r.Conclusions = append(r.Conclusions, compare(*r, c, all)...)
	}
	for _, row := range r.Rows {
		layout, is := strings.CutSuffix(row.Case, " send")
		if is && slices.Contains(order, layout) {
			r.Rows = append(r.Rows, Row{Case: layout + " rank", Figures: ranks[layout]})
		}
	}
}

// ranking returns the layouts in the order of their numbers, the best first.
func ranking(r Report, c column) (all []ranked) {
	for _, row := range r.Rows {
		layout, is := strings.CutSuffix(row.Case, " "+c.row)
		if !is || layout == ofServer {
			continue
		}
		for _, f := range row.Figures {
			if f.Name == c.figure {
				all = append(all, ranked{layout, f})
			}
		}
	}
	slices.SortStableFunc(all, func(x, y ranked) int { return cmp.Compare(x.Value, y.Value) })
	return all
}

// compare compares the places of the source's layouts among themselves with the source's words. It says nothing if one was not measured.
func compare(r Report, c column, all []ranked) (facts []Fact) {
	var three []ranked
	for _, l := range all {
		if slices.ContainsFunc(c.said, func(s said) bool { return s.layout == l.layout }) {
			three = append(three, l)
		}
	}
	if len(three) < len(c.said) {
		return nil
	}
	for _, s := range c.said {
		at := slices.IndexFunc(three, func(l ranked) bool { return l.layout == s.layout })
		rank := 1 + slices.IndexFunc(all, func(l ranked) bool { return l.layout == s.layout })
		text := fmt.Sprintf("%d of %d, and %d of the source's three; the source says %q", rank, len(all), at+1, s.words)
		if at+1 < s.from || at+1 > s.to {
			text += "; differs: " + why(r, c, three)
		}
		facts = append(facts, Fact{Name: s.layout + " " + c.name, Value: text})
	}
	return facts
}

// why says which layout was the first, by how much, and what each of them wrote, read or stored.
func why(r Report, c column, three []ranked) string {
	first := three[0]
	parts := []string{fmt.Sprintf("%s is the first with %.4g %s", first.layout, first.Value, first.Unit)}
	for _, l := range three[1:] {
		parts = append(parts, fmt.Sprintf("%s has %.4g %s, %.2f times that", l.layout, l.Value, l.Unit, l.Value/first.Value))
	}
	for _, of := range c.of {
		var each []string
		unit := ""
		for _, l := range three {
			for _, row := range r.Rows {
				for _, f := range row.Figures {
					if row.Case == l.layout+" "+c.row && f.Name == of {
						each, unit = append(each, fmt.Sprintf("%s %.4g", l.layout, f.Value)), f.Unit
					}
				}
			}
		}
		if len(each) == len(three) {
			parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s: %s %s", of, strings.Join(each, ", "), unit)))
		}
	}
	return strings.Join(parts, "; ")
}
