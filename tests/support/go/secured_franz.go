package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type securedFranz struct{ given settings }

func (f securedFranz) roundTrip(ctx context.Context, topic string) error {
	from := map[int32]kgo.Offset{0: kgo.NewOffset().AtStart()}
	made, err := f.connect(ctx,
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		return err
	}
	defer made.Close()
	sent := &kgo.Record{Topic: topic, Value: []byte("hello")}
	if err := made.ProduceSync(ctx, sent).FirstErr(); err != nil {
		return err
	}
	return firstFetched(ctx, made)
}

func (f securedFranz) join(ctx context.Context, group string) error {
	made, err := f.connect(ctx, kgo.ConsumerGroup(group), kgo.ConsumeTopics(openTopic))
	if err != nil {
		return err
	}
	defer made.Close()
	return firstFetched(ctx, made)
}

func (f securedFranz) stay(ctx context.Context, topic string) error {
	made, err := f.connect(ctx, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer made.Close()
	return atAPace(func() error {
		return made.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("stay")}).FirstErr()
	})
}

func (f securedFranz) acls(ctx context.Context) error {
	made, err := f.connect(ctx)
	if err != nil {
		return err
	}
	defer made.Close()
	asked := kmsg.NewPtrDescribeACLsRequest()
	asked.ResourceType = kmsg.ACLResourceTypeAny
	asked.ResourcePatternType = kmsg.ACLResourcePatternTypeAny
	asked.Operation = kmsg.ACLOperationAny
	asked.PermissionType = kmsg.ACLPermissionTypeAny
	answer, err := asked.RequestWith(ctx, made)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(answer.ErrorCode)
}

// A client that has reached the broker: one that cannot keeps on trying without a word.
func (f securedFranz) connect(ctx context.Context, options ...kgo.Opt) (*kgo.Client, error) {
	options = append(options, kgo.SeedBrokers(f.given["bootstrap.servers"]))
	encryption, err := f.given.encryption()
	if err != nil {
		return nil, err
	}
	if encryption != nil {
		options = append(options, kgo.DialTLSConfig(encryption))
	}
	if mechanism := f.mechanism(); mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	made, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	if err := made.Ping(ctx); err != nil {
		made.Close()
		return nil, fmt.Errorf("ping: %w", err)
	}
	return made, nil
}

func (f securedFranz) mechanism() sasl.Mechanism {
	user, password := f.given["sasl.username"], f.given["sasl.password"]
	switch f.given["sasl.mechanism"] {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: f.given["token"]}.AsMechanism()
	}
	return nil
}

func firstFetched(ctx context.Context, made *kgo.Client) error {
	for ctx.Err() == nil {
		fetches := made.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		if !fetches.Empty() {
			return nil
		}
	}
	return errNothing
}
