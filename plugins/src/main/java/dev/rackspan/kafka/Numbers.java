package dev.rackspan.kafka;

import java.util.Arrays;

/** Numbers from 0 for keys as they come, and how often each came. */
final class Numbers {
    private static final long GOLDEN = 0x9E3779B97F4A7C15L;

    /** Places of keys, 1 more than their number, 0 where none is: a power of two, at least twice as many as keys. */
    private int[] table = new int[64];
    private long[] keys = new long[table.length / 2];
    private int[] counts = new int[table.length / 2];
    private int used;

    int of(long key) {
        int at = place(key);
        while (table[at] != 0 && keys[table[at] - 1] != key) {
            at = at + 1 & table.length - 1;
        }
        int number = table[at] == 0 ? added(key, at) : table[at] - 1;
        counts[number]++;
        return number;
    }

    int[] counts() {
        return Arrays.copyOf(counts, used);
    }

    long[] keys() {
        return Arrays.copyOf(keys, used);
    }

    private int place(long key) {
        return (int) (key * GOLDEN >>> Long.numberOfLeadingZeros(table.length - 1));
    }

    private int added(long key, int at) {
        keys[used] = key;
        table[at] = ++used;
        if (used == keys.length) {
            keys = Arrays.copyOf(keys, 2 * used);
            counts = Arrays.copyOf(counts, 2 * used);
            table = new int[4 * used];
            for (int number = 0; number < used; number++) {
                int free = place(keys[number]);
                while (table[free] != 0) {
                    free = free + 1 & table.length - 1;
                }
                table[free] = number + 1;
            }
        }
        return used - 1;
    }
}
