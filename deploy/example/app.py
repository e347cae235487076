"""An application beside Muster: one thread takes orders, two tills read them as a group and commit."""

import os
import random
import threading
import time

from kafka import KafkaConsumer, KafkaProducer

SERVERS = os.environ.get("BOOTSTRAP_SERVERS", "localhost:19092")
TOPIC, GROUP = "orders", "tills"


def take_orders() -> None:
    producer = KafkaProducer(bootstrap_servers=SERVERS)
    number = 0
    while True:
        producer.send(TOPIC, f"order {number}".encode())
        number += 1
        time.sleep(random.expovariate(20))  # 20 a second


def read(name: str) -> None:
    consumer = KafkaConsumer(
        TOPIC, bootstrap_servers=SERVERS, group_id=GROUP, client_id=name, auto_offset_reset="earliest"
    )
    for record in consumer:
        time.sleep(0.05)
        if record.offset % 100 == 0:
            print(f"{name}: {record.topic}:{record.partition} is at {record.offset}", flush=True)


if __name__ == "__main__":
    threads = [threading.Thread(target=take_orders, daemon=True)]
    threads += [threading.Thread(target=read, args=(f"till-{number}",), daemon=True) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
