package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const latency = 2 * time.Second

// Programs that the argument names. All but `pausing` are wrong:
//
//	first     commits what it polled, then processes it
//	lost      commits all partitions that it ever had, with its valid generation
//	too_far   commits one record more than it has processed
//	slow      hands what it polled to a thread that takes its time, and commits automatically
//	nothing   copies in transactions, and leaves the offsets out
//	stays     ends without leaving its group
//	pausing   processes beside its polls, while the partitions are paused
var mistakes = map[string]func(context.Context, []kgo.Opt){
	"first":   func(ctx context.Context, options []kgo.Opt) { commitWrongly(ctx, options, "first") },
	"lost":    func(ctx context.Context, options []kgo.Opt) { commitWrongly(ctx, options, "lost") },
	"too_far": func(ctx context.Context, options []kgo.Opt) { commitWrongly(ctx, options, "too_far") },
	"stays":   func(ctx context.Context, options []kgo.Opt) { commitWrongly(ctx, options, "stays") },
	"slow":    slow,
	"nothing": nothing,
	"pausing": pausing,
}

func commitWrongly(ctx context.Context, options []kgo.Opt, mistake string) {
	client := open(append(options, kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll()))
	had := map[int32]kgo.EpochOffset{}
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		report("poll", fetches)
		ends := map[int32]kgo.EpochOffset{}
		fetches.EachRecord(func(record *kgo.Record) {
			ends[record.Partition] = kgo.EpochOffset{Epoch: record.LeaderEpoch, Offset: record.Offset + 1}
			had[record.Partition] = ends[record.Partition]
		})
		switch {
		case len(ends) == 0:
		case mistake == "first":
			commit(client, ends)
			time.Sleep(100 * time.Millisecond)
			write(client, copies(fetches))
		case mistake == "lost":
			write(client, copies(fetches))
			commit(client, had)
		case mistake == "too_far":
			write(client, copies(fetches))
			for partition, end := range ends {
				ends[partition] = kgo.EpochOffset{Epoch: end.Epoch, Offset: end.Offset + 1}
			}
			commit(client, ends)
		default:
			write(client, copies(fetches))
			commit(client, ends)
		}
		client.AllowRebalance()
	}
	if mistake == "stays" {
		os.Exit(0)
	}
	client.CloseAllowingRebalance()
}

func slow(ctx context.Context, options []kgo.Opt) {
	client := open(append(options, kgo.AutoCommitInterval(500*time.Millisecond)))
	type polled struct {
		copies []*kgo.Record
		at     time.Time
	}
	work := make(chan polled, 10_000)
	go func() {
		for batch := range work {
			time.Sleep(time.Until(batch.at.Add(latency)))
			write(client, batch.copies)
		}
	}()
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		report("poll", fetches)
		if copied := copies(fetches); len(copied) > 0 {
			work <- polled{copied, time.Now()}
		}
	}
	time.Sleep(latency + time.Second)
	client.Close()
}

func nothing(ctx context.Context, options []kgo.Opt) {
	id := os.Getenv("GROUP") + "-" + os.Getenv("INSTANCE")
	client := open(append(options, kgo.DisableAutoCommit(), kgo.TransactionalID(id)))
	for ctx.Err() == nil {
		copied := copies(client.PollFetches(ctx))
		if len(copied) == 0 {
			continue
		}
		if err := client.BeginTransaction(); err != nil {
			die(err)
		}
		write(client, copied)
		if err := client.EndTransaction(context.Background(), kgo.TryCommit); err != nil {
			die(err)
		}
	}
	client.Close()
}

// A program that is right: each partition is paused while its records are processed, so that the client goes on to poll.
func pausing(ctx context.Context, options []kgo.Opt) {
	client := open(append(options, kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll()))
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		report("poll", fetches)
		copied := copies(fetches)
		if len(copied) > 0 {
			paused := map[string][]int32{}
			fetches.EachPartition(func(each kgo.FetchTopicPartition) {
				paused[each.Topic] = append(paused[each.Topic], each.Partition)
			})
			client.PauseFetchPartitions(paused)
			time.Sleep(200 * time.Millisecond)
			write(client, copied)
			if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
				fmt.Fprintln(os.Stderr, "commit:", err)
			}
			client.ResumeFetchPartitions(paused)
		}
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
}

func open(options []kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(options...)
	if err != nil {
		die(err)
	}
	return client
}

func write(client *kgo.Client, copied []*kgo.Record) {
	if err := client.ProduceSync(context.Background(), copied...).FirstErr(); err != nil {
		die(err)
	}
}

func commit(client *kgo.Client, offsets map[int32]kgo.EpochOffset) {
	client.CommitOffsetsSync(context.Background(), map[string]map[int32]kgo.EpochOffset{os.Getenv("TOPIC"): offsets}, nil)
}
