// SPDX-License-Identifier: Apache-2.0

// Evaluates the alerts of a rules file on scrapes, with Prometheus' own parser, storage and engine.
// stdin: {"rules": PATH, "states": {NAME: [page, ...]}, "lastAtMs": N}: the pages of a state are scraped
// 15 s apart, the last one at lastAtMs, and then the same page again and again: the state lasts.
// stdout: {NAME: {ALERT: seconds after lastAtMs at which it fires}}; what does not fire is absent.
// With "queries": [EXPR, ...] instead of rules, each is evaluated at lastAtMs; stdout: {NAME: {EXPR: how many of its series have a
// value that is a number}}.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/tsdb"
)

const (
	step  = 15 * time.Second
	lasts = 30 * time.Minute
)

type input struct {
	Rules    string              `json:"rules"`
	States   map[string][]string `json:"states"`
	LastAtMs int64               `json:"lastAtMs"`
	Queries  []string            `json:"queries"`
}

func main() {
	var in input
	check(json.NewDecoder(os.Stdin).Decode(&in))
	last := time.UnixMilli(in.LastAtMs)
	if len(in.Queries) > 0 {
		counts := map[string]map[string]int{}
		for name, pages := range in.States {
			counts[name] = count(in.Queries, pages, last)
		}
		check(json.NewEncoder(os.Stdout).Encode(counts))
		return
	}
	groups, errs := rulefmt.ParseFile(in.Rules, false, model.UTF8Validation)
	for _, err := range errs {
		check(err)
	}
	out := map[string]map[string]float64{}
	for name, pages := range in.States {
		out[name] = evaluate(groups, pages, last)
	}
	check(json.NewEncoder(os.Stdout).Encode(out))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// open makes a database with these pages; the returned call removes it.
func open(pages []string, last time.Time) (*tsdb.DB, func()) {
	folder, err := os.MkdirTemp("", "fairlead-promql-")
	check(err)
	db, err := tsdb.Open(folder, slog.New(slog.DiscardHandler), nil, tsdb.DefaultOptions(), nil)
	check(err)
	for i, page := range pages {
		store(db, page, last.Add(-step*time.Duration(len(pages)-1-i)))
	}
	return db, func() {
		db.Close()
		os.RemoveAll(folder)
	}
}

func newEngine() *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})
}

// ask evaluates one expression.
func ask(engine *promql.Engine, db *tsdb.DB, expr string, at time.Time) promql.Vector {
	query, err := engine.NewInstantQuery(context.Background(), db, nil, expr, at)
	check(err)
	defer query.Close()
	result := query.Exec(context.Background())
	check(result.Err)
	vector, err := result.Vector()
	check(err)
	return append(promql.Vector{}, vector...)
}

func count(queries []string, pages []string, last time.Time) map[string]int {
	db, remove := open(pages, last)
	defer remove()
	counts := map[string]int{}
	for _, expr := range queries {
		counts[expr] = 0
		for _, sample := range ask(newEngine(), db, expr, last) {
			if !math.IsNaN(sample.F) && !math.IsInf(sample.F, 0) {
				counts[expr]++
			}
		}
	}
	return counts
}

func evaluate(groups *rulefmt.RuleGroups, pages []string, last time.Time) map[string]float64 {
	db, remove := open(pages, last)
	defer remove()
	for at := last.Add(step); !at.After(last.Add(lasts)); at = at.Add(step) {
		store(db, pages[len(pages)-1], at)
	}
	engine := newEngine()
	fires := map[string]float64{}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			if after := firesAfter(engine, db, rule, last); after >= 0 {
				fires[rule.Alert] = after
			}
		}
	}
	return fires
}

// store appends every series of a page.
func store(db *tsdb.DB, page string, at time.Time) {
	textParser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := textParser.TextToMetricFamilies(strings.NewReader(page))
	check(err)
	appender := db.Appender(context.Background())
	add := func(name string, metric *dto.Metric, value float64, more ...string) {
		pairs := append([]string{labels.MetricName, name, "instance", "n1"}, more...)
		for _, pair := range metric.Label {
			pairs = append(pairs, pair.GetName(), pair.GetValue())
		}
		_, err := appender.Append(0, labels.FromStrings(pairs...), at.UnixMilli(), value)
		check(err)
	}
	for name, family := range families {
		for _, metric := range family.Metric {
			if value, isPlain := valueOf(metric); isPlain {
				add(name, metric, value)
			}
			for _, bucket := range metric.GetHistogram().GetBucket() {
				bound := strconv.FormatFloat(bucket.GetUpperBound(), 'g', -1, 64)
				add(name+"_bucket", metric, float64(bucket.GetCumulativeCount()), labels.BucketLabel, bound)
			}
		}
	}
	check(appender.Commit())
}

func valueOf(metric *dto.Metric) (float64, bool) {
	switch {
	case metric.Gauge != nil:
		return metric.Gauge.GetValue(), true
	case metric.Counter != nil:
		return metric.Counter.GetValue(), true
	case metric.Untyped != nil:
		return metric.Untyped.GetValue(), true
	}
	return math.NaN(), false
}

// firesAfter is the time until the rule has held for as long as it asks, -1 if it never has.
func firesAfter(engine *promql.Engine, db *tsdb.DB, rule rulefmt.Rule, last time.Time) float64 {
	active := time.Time{}
	for at := last; !at.After(last.Add(lasts)); at = at.Add(step) {
		if len(ask(engine, db, rule.Expr, at)) == 0 {
			active = time.Time{}
			continue
		}
		if active.IsZero() {
			active = at
		}
		if at.Sub(active) >= time.Duration(rule.For) {
			return at.Sub(last).Seconds()
		}
	}
	return -1
}
