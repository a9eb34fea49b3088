// The Go client of Pulsar with its default settings: asked by lines, answers by lines.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/sirupsen/logrus"
)

const patience = 30 * time.Second

var modes = map[string]pulsar.SubscriptionType{
	"Exclusive":  pulsar.Exclusive,
	"Shared":     pulsar.Shared,
	"Failover":   pulsar.Failover,
	"Key_Shared": pulsar.KeyShared,
}

func main() {
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	client, err := pulsar.NewClient(pulsar.ClientOptions{
		URL:    os.Args[1],
		Logger: log.NewLoggerWithLogrus(quiet),
	})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 16<<20)
	for in.Scan() {
		answers, err := answer(client, in, strings.Split(in.Text(), " "))
		if err != nil {
			fmt.Println("ERR", strings.ReplaceAll(err.Error(), "\n", " "))
			continue
		}
		for _, one := range answers {
			fmt.Println(one)
		}
		fmt.Println("OK")
	}
}

func answer(client pulsar.Client, in *bufio.Scanner, words []string) ([]string, error) {
	switch words[0] {
	case "PRODUCE":
		count, _ := strconv.Atoi(words[2])
		return produce(client, in, words[1], count)
	case "CONSUME":
		count, _ := strconv.Atoi(words[4])
		return consume(client, words[1], words[2], modes[words[3]], count)
	case "FEATURES":
		return features(client, words[1], words[2]), nil
	case "STREAM":
		return nil, stream(client, words[1])
	case "SEEN":
		return []string{seen()}, nil
	case "MARK":
		return []string{strconv.Itoa(mark())}, nil
	case "END":
		return end(), nil
	}
	return nil, fmt.Errorf("unknown question %s", words[0])
}

func produce(client pulsar.Client, in *bufio.Scanner, topic string, count int) ([]string, error) {
	messages := make([]*pulsar.ProducerMessage, count)
	for number := range messages {
		in.Scan()
		messages[number] = message(strings.Split(in.Text(), " "))
	}
	producer, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic})
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	ids := make([]string, count)
	var failed error
	var done sync.WaitGroup
	done.Add(count)
	for number, one := range messages {
		producer.SendAsync(context.Background(), one,
			func(id pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
				defer done.Done()
				if err != nil {
					failed = err
					return
				}
				ids[number] = text(id)
			})
	}
	done.Wait()
	return ids, failed
}

func message(words []string) *pulsar.ProducerMessage {
	built := &pulsar.ProducerMessage{Properties: map[string]string{}}
	if key := bytes(words[0]); key != nil {
		built.Key = string(key)
	}
	built.Payload = bytes(words[1])
	if event, _ := strconv.ParseInt(words[2], 10, 64); event > 0 {
		built.EventTime = time.UnixMilli(event)
	}
	for at := 3; at < len(words); at += 2 {
		built.Properties[string(bytes(words[at]))] = string(bytes(words[at+1]))
	}
	return built
}

func consume(
	client pulsar.Client, topic string, subscription string, mode pulsar.SubscriptionType, count int,
) ([]string, error) {
	consumer, err := client.Subscribe(pulsar.ConsumerOptions{
		Topic:                       topic,
		SubscriptionName:            subscription,
		Type:                        mode,
		SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
	})
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	var found []string
	for len(found) < count {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		message, err := consumer.Receive(ctx)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("only %d of %d messages: %w", len(found), count, err)
		}
		found = append(found, written(message))
		if err := consumer.Ack(message); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func written(message pulsar.Message) string {
	key := "~"
	if message.Key() != "" {
		key = word([]byte(message.Key()))
	}
	event := int64(0)
	if !message.EventTime().IsZero() && message.EventTime().UnixMilli() > 0 {
		event = message.EventTime().UnixMilli()
	}
	parts := []string{key, word(message.Payload()), strconv.FormatInt(event, 10), text(message.ID())}
	var names []string
	for name := range message.Properties() {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		parts = append(parts, word([]byte(name)), word([]byte(message.Properties()[name])))
	}
	return strings.Join(parts, " ")
}

func text(id pulsar.MessageID) string {
	return fmt.Sprintf("%d:%d:%d", id.LedgerID(), id.EntryID(), id.BatchIdx())
}

func bytes(word string) []byte {
	if word == "~" {
		return nil
	}
	found, err := base64.StdEncoding.DecodeString(word[1:])
	if err != nil {
		panic(err)
	}
	return found
}

func word(data []byte) string {
	return "." + base64.StdEncoding.EncodeToString(data)
}
