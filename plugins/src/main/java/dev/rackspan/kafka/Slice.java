package dev.rackspan.kafka;

import java.util.AbstractSet;
import java.util.Arrays;
import java.util.Iterator;
import java.util.NoSuchElementException;

/**
 * A member's partitions of one topic, as a set that cannot be changed: a part of all that it has, in their order.
 *
 * <p>Brokers copy and compare it. As in the sets of Kafka's {@code range} there is no table to fill.
 */
final class Slice extends AbstractSet<Integer> {
    private final int[] items;
    private final int from;
    private final int to;
    /** The item that is the topic's partition 0. */
    private final int first;

    Slice(int[] items, int from, int to, int first) {
        this.items = items;
        this.from = from;
        this.to = to;
        this.first = first;
    }

    @Override
    public int size() {
        return to - from;
    }

    @Override
    public boolean contains(Object other) {
        return other instanceof Integer number && Arrays.binarySearch(items, from, to, first + number) >= 0;
    }

    @Override
    public Iterator<Integer> iterator() {
        return new Iterator<>() {
            private int at = from;

            @Override
            public boolean hasNext() {
                return at < to;
            }

            @Override
            public Integer next() {
                if (at == to) {
                    throw new NoSuchElementException();
                }
                return items[at++] - first;
            }
        };
    }
}
