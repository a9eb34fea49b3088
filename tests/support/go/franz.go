package main

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var franzCodecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

type franz struct{ bootstrap string }

func newFranz(bootstrap string) client { return franz{bootstrap} }

func (f franz) connect(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(options, kgo.SeedBrokers(f.bootstrap))...)
}

// Its producer is idempotent unless told otherwise.
func (f franz) produce(topic, codec string, _ bool, records []record) ([]int64, error) {
	made, err := f.connect(
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(franzCodecs[codec]))
	if err != nil {
		return nil, err
	}
	defer made.Close()
	sent := make([]*kgo.Record, len(records))
	for at, r := range records {
		sent[at] = &kgo.Record{Topic: topic, Partition: r.partition, Key: r.key, Value: r.value}
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	if err := made.ProduceSync(ctx, sent...).FirstErr(); err != nil {
		return nil, err
	}
	offsets := make([]int64, len(sent))
	for at, r := range sent {
		offsets[at] = r.Offset
	}
	return offsets, nil
}

func (f franz) consume(topic string, partitions []int32, count int) ([]record, error) {
	from := map[int32]kgo.Offset{}
	for _, partition := range partitions {
		from[partition] = kgo.NewOffset().AtStart()
	}
	made, err := f.connect(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		return nil, err
	}
	defer made.Close()
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	var found []record
	for len(found) < count && ctx.Err() == nil {
		more, err := polled(made.PollFetches(ctx))
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

func (f franz) subscribe(group, topic string) (member, error) {
	made, err := f.connect(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic))
	return franzMember{made}, err
}

type franzMember struct{ client *kgo.Client }

func (m franzMember) poll() ([]record, error) {
	ctx, cancel := context.WithTimeout(context.Background(), pollFor)
	defer cancel()
	return polled(m.client.PollFetches(ctx))
}

// It commits what came before the last poll.
func (m franzMember) leave() error {
	_, err := m.poll()
	m.client.Close()
	return err
}

func polled(fetches kgo.Fetches) ([]record, error) {
	for _, failed := range fetches.Errors() {
		if !errors.Is(failed.Err, context.DeadlineExceeded) {
			return nil, failed.Err
		}
	}
	var found []record
	fetches.EachRecord(func(r *kgo.Record) {
		found = append(found, record{r.Partition, r.Offset, r.Key, r.Value, r.Timestamp.UnixMilli()})
	})
	return found, nil
}

func (f franz) create(topic string, partitions int32) error {
	return f.admin(func(ctx context.Context, admin *kadm.Client) error {
		_, err := admin.CreateTopic(ctx, partitions, -1, nil, topic)
		return err
	})
}

func (f franz) delete(topic string) error {
	return f.admin(func(ctx context.Context, admin *kadm.Client) error {
		_, err := admin.DeleteTopic(ctx, topic)
		return err
	})
}

func (f franz) addPartitions(topic string, total int32) error {
	return f.admin(func(ctx context.Context, admin *kadm.Client) error {
		answers, err := admin.UpdatePartitions(ctx, int(total), topic)
		return errors.Join(err, answers.Error())
	})
}

func (f franz) alter(topic, name, value string) error {
	return f.admin(func(ctx context.Context, admin *kadm.Client) error {
		wanted := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}
		answers, err := admin.AlterTopicConfigs(ctx, wanted, topic)
		for _, answer := range answers {
			err = errors.Join(err, answer.Err)
		}
		return err
	})
}

func (f franz) list() (map[string]int, error) {
	found := map[string]int{}
	err := f.admin(func(ctx context.Context, admin *kadm.Client) error {
		topics, err := admin.ListTopics(ctx)
		for name, topic := range topics {
			found[name] = len(topic.Partitions)
		}
		return err
	})
	return found, err
}

func (f franz) admin(act func(context.Context, *kadm.Client) error) error {
	made, err := f.connect()
	if err != nil {
		return err
	}
	defer made.Close()
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	return act(ctx, kadm.NewClient(made))
}
