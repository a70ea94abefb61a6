package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// chart is a bar chart of one figure, with a bar for each row whose case ends with rows. There is none if no figure is known.
type chart struct{ name, rows, figure string }

// charts are those of layouts.
var charts = []chart{
	{"send", "send", "answered p50"}, {"read", "read 50", "took p50"}, {"size", "size", "in all"}, {"cost", "cost", "cost"},
}

// draw draws the figures in Plotted over the rows' X, with logarithmic axes. The extension of the file selects the format, for example
// figures.svg. It returns an error if fewer than two rows have an X. A report of layouts is drawn as bar charts instead, each in a file of its
// own, for example figures-send.svg.
func draw(r Report, file string) error {
	if r.Benchmark == "layouts" {
		for _, c := range charts {
			ext := filepath.Ext(file)
			if err := c.draw(r, strings.TrimSuffix(file, ext)+"-"+c.name+ext); err != nil {
				return err
			}
		}
		return nil
	}
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%s, store %s", r.Benchmark, r.Store)
	p.X.Label.Text = r.XName
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	p.Add(plotter.NewGrid())
	for i, name := range r.Plotted {
		points, unit := points(r, name)
		if len(points) < 2 {
			return errors.New("there is nothing to plot: measure with at least two sizes")
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return fmt.Errorf("plot %s: %w", name, err)
		}
		line.Color, marks.Color, marks.Shape = plotutil.Color(i), plotutil.Color(i), plotutil.Shape(i)
		p.Add(line, marks)
		p.Legend.Add(fmt.Sprintf("%s (%s)", name, unit), line, marks)
	}
	p.Legend.Top = true
	if err := p.Save(16*vg.Centimeter, 10*vg.Centimeter, file); err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	return nil
}

func (c chart) draw(r Report, file string) error {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%s, store %s: %s", r.Benchmark, r.Store, c.rows)
	var values plotter.Values
	var names []string
	for _, row := range r.Rows {
		name, is := strings.CutSuffix(row.Case, " "+c.rows)
		for _, f := range row.Figures {
			if is && f.Name == c.figure {
				values, names = append(values, f.Value), append(names, name)
				p.Y.Label.Text = fmt.Sprintf("%s (%s)", f.Name, f.Unit)
			}
		}
	}
	if len(values) == 0 {
		return nil
	}
	bars, err := plotter.NewBarChart(values, vg.Centimeter)
	if err != nil {
		return fmt.Errorf("plot %s: %w", c.name, err)
	}
	p.Add(bars)
	p.NominalX(names...)
	p.Y.Min = 0
	if err := p.Save(20*vg.Centimeter, 10*vg.Centimeter, file); err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	return nil
}

// points returns the points of a figure over the rows' X. It leaves out values that are not positive, because the axes are logarithmic.
func points(r Report, name string) (points plotter.XYs, unit string) {
	for _, row := range r.Rows {
		for _, f := range row.Figures {
			if f.Name == name && row.X > 0 && f.Value > 0 {
				points, unit = append(points, plotter.XY{X: row.X, Y: f.Value}), f.Unit
			}
		}
	}
	return points, unit
}
