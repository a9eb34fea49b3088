// A producer that sends numbers on and on, and a consumer that acknowledges them at once.
package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

const keptWithin = 2 * time.Second

var (
	lock         sync.Mutex
	receipted    = map[string]bool{}
	received     = map[string]bool{}
	deliveries   = map[string]int{}
	acknowledged = map[string]time.Time{}
	marked       = map[string]int{}
	isWriting    atomic.Bool
	isReading    atomic.Bool
	writing      sync.WaitGroup
	reading      sync.WaitGroup
)

func stream(client pulsar.Client, topic string) error {
	consumer, err := client.Subscribe(pulsar.ConsumerOptions{
		Topic:                       topic,
		SubscriptionName:            "readers",
		Type:                        pulsar.Shared,
		SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
	})
	if err != nil {
		return err
	}
	producer, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic})
	if err != nil {
		return err
	}
	isWriting.Store(true)
	isReading.Store(true)
	writing.Add(1)
	reading.Add(1)
	go write(producer)
	go read(consumer)
	return nil
}

func write(producer pulsar.Producer) {
	defer writing.Done()
	for number := 0; isWriting.Load(); number++ {
		value := strconv.Itoa(number)
		producer.SendAsync(context.Background(), &pulsar.ProducerMessage{Payload: []byte(value)},
			func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
				if err == nil {
					lock.Lock()
					receipted[value] = true
					lock.Unlock()
				}
			})
		time.Sleep(5 * time.Millisecond)
	}
	_ = producer.FlushWithCtx(context.Background())
	producer.Close()
}

func read(consumer pulsar.Consumer) {
	defer reading.Done()
	for isReading.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		message, err := consumer.Receive(ctx)
		cancel()
		if err != nil {
			continue
		}
		place := fmt.Sprintf("%d %s", message.ID().PartitionIdx(), text(message.ID()))
		_ = consumer.Ack(message)
		lock.Lock()
		deliveries[place]++
		if _, known := acknowledged[place]; !known {
			acknowledged[place] = time.Now()
		}
		received[string(message.Payload())] = true
		lock.Unlock()
	}
	consumer.Close()
}

func seen() string {
	lock.Lock()
	defer lock.Unlock()
	return fmt.Sprintf("%d %d", len(receipted), len(received))
}

// mark notes what was acknowledged so long ago that the broker keeps it; gives how much it is.
func mark() int {
	lock.Lock()
	defer lock.Unlock()
	for place, at := range acknowledged {
		if time.Since(at) > keptWithin {
			marked[place] = deliveries[place]
		}
	}
	return len(marked)
}

func missing() []string {
	lock.Lock()
	defer lock.Unlock()
	var found []string
	for value := range receipted {
		if !received[value] {
			found = append(found, "lost "+value)
		}
	}
	return found
}

// end stops, and tells what was promised and did not happen.
func end() []string {
	isWriting.Store(false)
	writing.Wait() // until all that was sent has its receipt
	deadline := time.Now().Add(2 * patience)
	for len(missing()) > 0 && time.Now().Before(deadline) {
		time.Sleep(50 * time.Millisecond)
	}
	isReading.Store(false)
	reading.Wait()
	broken := missing()
	for place, count := range marked {
		if deliveries[place] > count {
			broken = append(broken, "came again "+place)
		}
	}
	return broken
}
