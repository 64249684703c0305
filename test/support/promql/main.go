// SPDX-License-Identifier: Apache-2.0

// Evaluates the alerts of a rules file on scrapes, with Prometheus' own parser, storage and engine.
// stdin: {"rules": PATH, "states": {NAME: [page, ...]}, "lastAtMs": N}: the pages of a state are scraped
// 15 s apart, the last one at lastAtMs, and then the same page again and again: the state lasts.
// stdout: {NAME: {ALERT: seconds after lastAtMs at which it fires}}; what does not fire is absent.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
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
}

func main() {
	var in input
	check(json.NewDecoder(os.Stdin).Decode(&in))
	groups, errs := rulefmt.ParseFile(in.Rules, false, model.UTF8Validation)
	for _, err := range errs {
		check(err)
	}
	out := map[string]map[string]float64{}
	for name, pages := range in.States {
		out[name] = evaluate(groups, pages, time.UnixMilli(in.LastAtMs))
	}
	check(json.NewEncoder(os.Stdout).Encode(out))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func evaluate(groups *rulefmt.RuleGroups, pages []string, last time.Time) map[string]float64 {
	folder, err := os.MkdirTemp("", "fairlead-promql-")
	check(err)
	defer os.RemoveAll(folder)
	db, err := tsdb.Open(folder, slog.New(slog.DiscardHandler), nil, tsdb.DefaultOptions(), nil)
	check(err)
	defer db.Close()
	for i, page := range pages {
		store(db, page, last.Add(-step*time.Duration(len(pages)-1-i)))
	}
	for at := last.Add(step); !at.After(last.Add(lasts)); at = at.Add(step) {
		store(db, pages[len(pages)-1], at)
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})
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

// store appends every series of a page; histograms are no alert's business.
func store(db *tsdb.DB, page string, at time.Time) {
	textParser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := textParser.TextToMetricFamilies(strings.NewReader(page))
	check(err)
	appender := db.Appender(context.Background())
	for name, family := range families {
		for _, metric := range family.Metric {
			value, isPlain := valueOf(metric)
			if !isPlain {
				continue
			}
			pairs := []string{labels.MetricName, name, "instance", "n1"}
			for _, pair := range metric.Label {
				pairs = append(pairs, pair.GetName(), pair.GetValue())
			}
			_, err := appender.Append(0, labels.FromStrings(pairs...), at.UnixMilli(), value)
			check(err)
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
		query, err := engine.NewInstantQuery(context.Background(), db, nil, rule.Expr, at)
		check(err)
		result := query.Exec(context.Background())
		check(result.Err)
		vector, err := result.Vector()
		check(err)
		holds := len(vector) > 0
		query.Close()
		if !holds {
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
