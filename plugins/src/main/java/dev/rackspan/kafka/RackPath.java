package dev.rackspan.kafka;

import java.util.List;

/**
 * A rack id as its steps, top first: {@code /eu/eu-1a/r7} is {@code eu}, {@code eu-1a}, {@code r7}.
 *
 * <p>The leading slash is optional, and a flat id such as {@code use1-az1} is one step. An id that is no path (an empty
 * step, white space, a character that is not printed) is one step as a whole: it is near to itself and to nothing else,
 * as in Kafka's own selector. No path has such a step. No id at all has no steps, and is near to nothing.
 *
 * <p>The rules are those of Rackspan's {@code core/rack_path.py}, but for characters newer than this Java's Unicode, which
 * it takes for not printed. Reading an id takes time in proportion to its length, whatever a client sends.
 */
record RackPath(List<String> steps) {
    private static final RackPath NONE = new RackPath(List.of());

    static RackPath of(String rackId) {
        if (rackId == null || rackId.isEmpty()) {
            return NONE;
        }
        String body = rackId.charAt(0) == '/' ? rackId.substring(1) : rackId;
        return new RackPath(isPath(body) ? List.of(body.split("/")) : List.of(rackId));
    }

    /** How many leading steps two racks have in common. */
    int stepsInCommon(RackPath other) {
        int most = Math.min(steps.size(), other.steps.size());
        int common = 0;
        while (common < most && steps.get(common).equals(other.steps.get(common))) {
            common++;
        }
        return common;
    }

    private static boolean isPath(String body) {
        return !body.isEmpty()
            && !body.startsWith("/")
            && !body.endsWith("/")
            && !body.contains("//")
            && body.codePoints().allMatch(RackPath::isPrinted);
    }

    private static boolean isPrinted(int character) {
        return switch (Character.getType(character)) {
            case Character.CONTROL,
                Character.FORMAT,
                Character.LINE_SEPARATOR,
                Character.PARAGRAPH_SEPARATOR,
                Character.PRIVATE_USE,
                Character.SPACE_SEPARATOR,
                Character.SURROGATE,
                Character.UNASSIGNED -> false;
            default -> true;
        };
    }
}
