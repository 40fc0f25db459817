package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// share is franz-go's share consumer (KIP-932) with a topic and a group of this name. A line of output is what one step
// delivered, "step: value#delivery count ...".
func share(bootstrap, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	must := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	producer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	must(err)
	defer producer.Close()
	admin := kadm.NewClient(producer)
	_, err = admin.CreateTopic(ctx, 1, 1, nil, name)
	must(err)
	earliest := "earliest"
	change := kmsg.NewPtrIncrementalAlterConfigsRequest()
	change.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
		ResourceType: kmsg.ConfigResourceTypeGroupConfig,
		ResourceName: name,
		Configs:      []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "share.auto.offset.reset", Value: &earliest}},
	}}
	_, err = change.RequestWith(ctx, producer)
	must(err)
	var records []*kgo.Record
	for _, value := range []string{"a", "b", "c", "d"} {
		records = append(records, &kgo.Record{Topic: name, Value: []byte(value)})
	}
	must(producer.ProduceSync(ctx, records...).FirstErr())

	member := func() *kgo.Client {
		made, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ShareGroup(name), kgo.ConsumeTopics(name))
		must(err)
		return made
	}
	next := func(step string, from *kgo.Client) []*kgo.Record {
		var found []*kgo.Record
		for len(found) == 0 && ctx.Err() == nil {
			fetches := from.PollFetches(ctx)
			must(fetches.Err())
			found = fetches.Records()
		}
		fmt.Print(step, ":")
		for _, record := range found {
			fmt.Printf(" %s#%d", record.Value, record.DeliveryCount())
		}
		fmt.Println()
		return found
	}
	first := member()
	statuses := []kgo.AckStatus{kgo.AckAccept, kgo.AckRelease, kgo.AckReject, kgo.AckAccept}
	for i, record := range next("first", first) {
		record.Ack(statuses[i])
	}
	must(first.FlushAcks(ctx))
	next("released", first)
	// What it has not acknowledged, it gives back when it leaves.
	first.Close()
	second := member()
	for _, record := range next("given back", second) {
		record.Ack(kgo.AckAccept)
	}
	must(second.FlushAcks(ctx))
	second.Close()
}
