package dev.rackspan.kafka;

import java.util.Arrays;

/** How many of each sort a kind of members has, in the order in which the sorts came. */
final class Bag {
    private static final int GOLDEN = 0x9E3779B9;
    private static final int GONE = -1;

    /** Places in `sorts`, 1 more; 0 where none is: a power of two, at least twice as many as sorts. */
    private int[] table = new int[32];
    /** What came, `GONE` where it was used up; `amounts` beside them. */
    private int[] sorts = new int[table.length / 2];
    private int[] amounts = new int[table.length / 2];
    private int used;

    int amount(int sort) {
        int place = table[slot(sort)];
        return place == 0 ? 0 : amounts[place - 1];
    }

    void add(int sort, int amount) {
        int slot = slot(sort);
        if (table[slot] == 0) {
            if (used == sorts.length) {
                grow();
                slot = slot(sort);
            }
            sorts[used] = sort;
            table[slot] = ++used;
        }
        amounts[table[slot] - 1] += amount;
    }

    void remove(int sort, int amount) {
        int slot = slot(sort);
        int place = table[slot] - 1;
        amounts[place] -= amount;
        if (amounts[place] == 0) {
            sorts[place] = GONE;
            close(slot);
        }
    }

    /** How many places there are, also of sorts that are gone. */
    int places() {
        return used;
    }

    /** The sort at a place, negative where it is gone. */
    int sort(int place) {
        return sorts[place];
    }

    private int slot(int sort) {
        int slot = home(sort);
        while (table[slot] != 0 && sorts[table[slot] - 1] != sort) {
            slot = slot + 1 & table.length - 1;
        }
        return slot;
    }

    private int home(int sort) {
        return sort * GOLDEN >>> Integer.numberOfLeadingZeros(table.length - 1);
    }

    /** Take a slot out, and move up those behind it that would not be found any more. */
    private void close(int slot) {
        int open = slot;
        table[open] = 0;
        for (int next = open + 1 & table.length - 1; table[next] != 0; next = next + 1 & table.length - 1) {
            int home = home(sorts[table[next] - 1]);
            if ((next - home & table.length - 1) >= (next - open & table.length - 1)) {
                table[open] = table[next];
                table[next] = 0;
                open = next;
            }
        }
    }

    private void grow() {
        int left = 0;
        for (int place = 0; place < used; place++) {
            if (sorts[place] != GONE) {
                sorts[left] = sorts[place];
                amounts[left++] = amounts[place];
            }
        }
        Arrays.fill(amounts, left, used, 0);
        used = left;
        if (2 * used > sorts.length) {
            sorts = Arrays.copyOf(sorts, 2 * sorts.length);
            amounts = Arrays.copyOf(amounts, sorts.length);
        }
        table = new int[2 * sorts.length];
        for (int place = 0; place < used; place++) {
            table[slot(sorts[place])] = place + 1;
        }
    }
}
