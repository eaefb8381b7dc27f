package dev.rackspan.kafka;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;

/**
 * Decides how many items of each sort each kind of members gets. The first goal is balance: the numbers of items per
 * member differ as little as possible. The second goal is the maximum total worth.
 *
 * <p>This is a minimum-cost flow. {@link #fill} finds a good start, and {@link #improve} cancels cycles of negative
 * cost, in which kinds pass items to each other. The graph has one additional node, the outside, which takes one item
 * or gives one more. The cost of the next item of a member grows with its number of items, in steps that are larger
 * than any worth. Without a cycle of negative cost the result is optimal (Klein, 1967).
 *
 * <p>The kinds and steps are limited. If a limit is reached, the result is at least as balanced as the start.
 */
final class Transport {
    /** Writes the worth of an item of a sort for each kind. It is negative if the kind must not get the sort. */
    interface Worth {
        void write(int sort, int[] byKind);
    }

    private static final long NEVER = Long.MAX_VALUE / 4;
    private static final int MOST_KINDS = 1_000;
    /** The most numbers in `rows`, and in {@link Best}. */
    private static final int MOST_NOTED = 1 << 22;
    private static final long SHARE = 5_040;
    private static final long REGRETS = 1 << 20;
    private static final long MOST_STEPS = 200_000_000;

    private final int[] size;
    private final int[] left;
    private final Worth worth;
    /** The results of `worth`: a row per sort, or a single row for the latest sort if there are too many. */
    private final int[][] rows;
    private final int[] load;
    private final Bag[] held;
    /** Whether the balance is as required and each item has its maximum worth, so that there is nothing to improve. */
    private boolean perfect;
    private boolean isCut;
    private long steps;

    /** `size` has the number of members per kind, and `supply` the number of items per sort. */
    Transport(int[] size, int[] supply, Worth worth) {
        this.size = size;
        this.left = supply.clone();
        this.worth = worth;
        boolean all = (long) size.length * supply.length <= MOST_NOTED;
        this.rows = new int[all ? supply.length : 1][size.length];
        for (int sort = 0; all && sort < supply.length; sort++) {
            worth.write(sort, rows[sort]);
        }
        this.load = new int[size.length];
        this.held = new Bag[size.length];
        Arrays.setAll(held, kind -> new Bag());
    }

    private int[] worth(int sort) {
        if (rows.length == left.length) {
            return rows[sort];
        }
        worth.write(sort, rows[0]);
        return rows[0];
    }

    /** Returns whether {@link #improve} was stopped early. */
    boolean isCut() {
        return isCut;
    }

    int load(int kind) {
        return load[kind];
    }

    /** Returns the number of items per sort of a kind. */
    Bag held(int kind) {
        return held[kind];
    }

    /** Gives each item to the kind with the maximum worth, as far as the balance within each pool of kinds allows. */
    void fill(int[] pool, int[] poolLoad) {
        int[] supply = left.clone();
        Best best = new Best();
        Room room = new Room(pool, poolLoad, best);
        for (int sort : byRegret(best, new int[0])) {
            int[] kinds = best.of(sort);
            room.ask(kinds, -left[sort]);
            room.give(sort, kinds);
        }
        perfect = Arrays.stream(left).allMatch(items -> items == 0);
        if (perfect) {
            return;
        }
        // There is no room for all items at their maximum worth. Start again, and put the sorts that lose least last.
        int[] all = IntStream.range(0, size.length).toArray();
        int[] order = byRegret(best, IntStream.of(all).filter(kind -> room.of(kind) > 0).toArray());
        System.arraycopy(supply, 0, left, 0, supply.length);
        Arrays.fill(load, 0);
        Arrays.setAll(held, kind -> new Bag());
        Room again = new Room(pool, poolLoad, best);
        for (int sort : order) {
            int[] kinds = best.of(sort);
            again.ask(kinds, -left[sort]);
            again.give(sort, kinds);
            again.give(sort, all);
        }
        pour(1);
    }

    /** Gives the remaining items to the kinds with the fewest items per member, in rounds over all sorts. */
    void pour(int rounds) {
        for (int round = rounds; round > 0; round--) {
            for (int sort = 0; sort < left.length; sort++) {
                if (left[sort] > 0) {
                    pour(sort, left[sort] - (left[sort] + round - 1) / round);
                }
            }
        }
    }

    private void pour(int sort, int rest) {
        int[] worth = worth(sort);
        while (left[sort] > rest) {
            int least = -1;
            for (int kind = 0; kind < size.length; kind++) {
                if (worth[kind] >= 0 && (least < 0 || load[kind] / size[kind] < load[least] / size[least])) {
                    least = kind;
                }
            }
            take(least, sort, Math.min(left[sort] - rest, size[least] - load[least] % size[least]));
        }
    }

    /** The kinds for which each sort has the maximum worth. Consecutive sorts may have the same array. */
    private final class Best {
        /** An array per sort, or null beyond the limit. */
        private final int[][] stored = new int[left.length][];
        private final int[] free = new int[size.length];

        Best() {
            int[] last = {};
            int noted = 0;
            for (int sort = 0; sort < left.length && noted <= MOST_NOTED; sort++) {
                int[] found = find(sort);
                if (!Arrays.equals(found, last)) {
                    last = found;
                    noted += found.length;
                }
                stored[sort] = last;
            }
        }

        int[] of(int sort) {
            return stored[sort] == null ? find(sort) : stored[sort];
        }

        private int[] find(int sort) {
            int[] worth = worth(sort);
            int most = 0;
            for (int each : worth) {
                most = Math.max(most, each);
            }
            int found = 0;
            for (int kind = 0; kind < size.length; kind++) {
                if (worth[kind] == most) {
                    free[found++] = kind;
                }
            }
            return Arrays.copyOf(free, found);
        }
    }

    /** The number of items that kinds may still get without losing the balance within a pool. */
    private final class Room {
        private final int[] pool;
        /** The number of items that a kind may still get of its equal share, or minus the number of items beyond it. */
        private final int[] share;
        /** The number of members per pool that may still get one more item than the equal share. */
        private final int[] extra;
        /** The demand per kind. A sort with the same worth for several kinds adds an equal part to each of them. */
        private final long[] asked;

        Room(int[] pool, int[] poolLoad, Best best) {
            this.pool = pool;
            int[] members = new int[poolLoad.length];
            for (int kind = 0; kind < size.length; kind++) {
                members[pool[kind]] += size[kind];
            }
            share = new int[size.length];
            Arrays.setAll(share, kind -> size[kind] * (poolLoad[pool[kind]] / members[pool[kind]]));
            extra = new int[poolLoad.length];
            Arrays.setAll(extra, at -> members[at] == 0 ? 0 : poolLoad[at] % members[at]);
            asked = new long[size.length];
            for (int sort = 0; sort < left.length; sort++) {
                ask(best.of(sort), left[sort]);
            }
        }

        void ask(int[] kinds, int items) {
            long each = kinds.length == 0 ? 0 : items * SHARE / kinds.length;
            for (int kind : kinds) {
                asked[kind] += each;
            }
        }

        int of(int kind) {
            return share[kind] > 0 ? share[kind] : Math.min(extra[pool[kind]], size[kind] + share[kind]);
        }

        private long unasked(int kind) {
            return share[kind] * SHARE - asked[kind];
        }

        /** Gives items to the kinds with the maximum worth, and among these to that with the most room beyond demand. */
        void give(int sort, int[] kinds) {
            int[] worth = worth(sort);
            while (left[sort] > 0) {
                int best = -1;
                for (int kind : kinds) {
                    int more = of(kind) == 0 ? -1 : worth[kind] - (best < 0 ? 0 : worth[best]);
                    if (more > 0 || more == 0 && (best < 0 || unasked(kind) > unasked(best))) {
                        best = kind;
                    }
                }
                if (best < 0) {
                    return;
                }
                int amount = Math.min(left[sort], of(best));
                extra[pool[best]] -= share[best] > 0 ? 0 : amount;
                share[best] -= amount;
                take(best, sort, amount);
            }
        }
    }

    private void take(int kind, int sort, int amount) {
        left[sort] -= amount;
        load[kind] += amount;
        held[kind].add(sort, amount);
    }

    /** Orders sorts by the worth that they lose in other kinds, descending, then by the number of their best kinds. */
    private int[] byRegret(Best best, int[] others) {
        long[] keys = new long[left.length];
        for (int sort = 0; sort < left.length; sort++) {
            int[] kinds = best.of(sort);
            int[] worth = worth(sort);
            int other = -1;
            for (int kind : others) {
                other = Math.max(other, worth[kind]);
            }
            long regret = kinds.length == 0 ? 0 : worth[kinds[0]] - other;
            keys[sort] = (REGRETS - Math.min(regret, REGRETS)) << 42 | (long) kinds.length << 24 | sort;
        }
        Arrays.sort(keys);
        return Arrays.stream(keys).mapToInt(key -> (int) (key & (1 << 24) - 1)).toArray();
    }

    /** Cancels cycles of negative cost until there are none, or up to the limit. `most` is the maximum worth. */
    void improve(int most) {
        int kinds = size.length;
        if (perfect || kinds < 2) {
            return;
        }
        if (kinds > MOST_KINDS) {
            isCut = true;
            return;
        }
        long level = (kinds + 2L) * (most + 1L);
        long[][] price = new long[kinds][kinds + 1];
        int[][] passed = new int[kinds][kinds];
        for (int kind = 0; kind < kinds; kind++) {
            offer(kind, level, price[kind], passed[kind]);
        }
        List<int[]> cycles = cycles(price, level);
        while (!cycles.isEmpty() && steps < MOST_STEPS) {
            for (int[] cycle : cycles) {
                handRound(cycle, passed);
                for (int kind : cycle) {
                    if (kind < kinds) {
                        offer(kind, level, price[kind], passed[kind]);
                    }
                }
            }
            cycles = cycles(price, level);
        }
        isCut = !cycles.isEmpty();
    }

    /** Writes the cost of passing an item of a kind to each other kind and the outside, and the sort of the item. */
    private void offer(int kind, long level, long[] price, int[] passed) {
        Arrays.fill(price, NEVER);
        price[size.length] = level * (load[kind] / size[kind] + 1);
        Bag bag = held[kind];
        for (int place = 0; place < bag.places(); place++) {
            int sort = bag.sort(place);
            if (sort < 0) {
                continue;
            }
            int[] worth = worth(sort);
            for (int other = 0; other < size.length; other++) {
                int lost = worth[kind] - worth[other];
                if (worth[other] >= 0 && other != kind && lost < price[other]) {
                    price[other] = lost;
                    passed[other] = sort;
                }
            }
        }
        steps += (long) size.length * (1 + bag.places());
    }

    /**
     * Returns disjoint cycles of negative cost. Each kind in a cycle passes an item to the next one.
     *
     * <p>`size.length` is the outside. This is the Bellman-Ford algorithm. It ends after the first round that closes a
     * cycle.
     */
    private List<int[]> cycles(long[][] price, long level) {
        int kinds = size.length;
        long[] distance = new long[kinds + 1];
        int[] before = new int[kinds + 1];
        Arrays.fill(before, -1);
        long[] outside = new long[kinds + 1];
        Arrays.setAll(outside, to -> to == kinds || load[to] == 0 ? NEVER : -level * ((load[to] + size[to] - 1) / size[to]));
        // A kind whose distance has not changed since its last visit cannot shorten another distance.
        boolean[] nearer = new boolean[kinds + 1];
        Arrays.fill(nearer, true);
        for (boolean shorter = true; shorter;) {
            shorter = false;
            for (int from = 0; from <= kinds; from++) {
                if (!nearer[from]) {
                    continue;
                }
                nearer[from] = false;
                long here = distance[from];
                long[] costs = from == kinds ? outside : price[from];
                for (int to = 0; to <= kinds; to++) {
                    if (costs[to] < NEVER && here + costs[to] < distance[to]) {
                        distance[to] = here + costs[to];
                        before[to] = from;
                        nearer[to] = true;
                        shorter = true;
                    }
                }
            }
            steps += (kinds + 1L) * (kinds + 1L);
            List<int[]> found = closed(before);
            if (!found.isEmpty()) {
                return found;
            }
        }
        return List.of();
    }

    private static List<int[]> closed(int[] before) {
        List<int[]> cycles = new ArrayList<>();
        int[] seen = new int[before.length];
        for (int start = 0; start < before.length; start++) {
            int at = start;
            while (at >= 0 && seen[at] == 0) {
                seen[at] = start + 1;
                at = before[at];
            }
            if (at >= 0 && seen[at] == start + 1) {
                int length = 1;
                for (int node = before[at]; node != at; node = before[node]) {
                    length++;
                }
                int[] cycle = new int[length];
                int node = at;
                do {
                    cycle[--length] = node;
                    node = before[node];
                } while (node != at);
                cycles.add(cycle);
            }
        }
        return cycles;
    }

    private void handRound(int[] cycle, int[][] passed) {
        int outside = size.length;
        int amount = Integer.MAX_VALUE;
        for (int at = 0; at < cycle.length; at++) {
            int from = cycle[at];
            int to = cycle[(at + 1) % cycle.length];
            int most = from == outside
                ? (load[to] - 1) % size[to] + 1
                : to == outside ? size[from] - load[from] % size[from] : held[from].amount(passed[from][to]);
            amount = Math.min(amount, most);
        }
        for (int at = 0; at < cycle.length; at++) {
            int from = cycle[at];
            int to = cycle[(at + 1) % cycle.length];
            if (from == outside) {
                load[to] -= amount;
            } else if (to == outside) {
                load[from] += amount;
            } else {
                held[from].remove(passed[from][to], amount);
                held[to].add(passed[from][to], amount);
            }
        }
    }
}
