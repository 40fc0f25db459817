// Starts the image with the module for Kafka, prints the bootstrap address, and stops at the end of stdin.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/kafka"
)

func main() {
	ctx := context.Background()
	container, err := kafka.Run(ctx, os.Args[2])
	defer func() {
		if err := testcontainers.TerminateContainer(container); err != nil {
			log.Print(err)
		}
	}()
	if err != nil {
		log.Print(err)
		return
	}
	brokers, err := container.Brokers(ctx)
	if err != nil {
		log.Print(err)
		return
	}
	fmt.Println("bootstrap", brokers[0])
	_, _ = io.ReadAll(os.Stdin)
}
